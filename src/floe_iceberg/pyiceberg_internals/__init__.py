"""The only place where floe uses PyIceberg's private API.

Names that begin with ``_``, and functions that PyIceberg replaces or calls behind its documented interface, may change
with any release. Everything that floe needs of them goes through these modules, so that an upgrade has one place to
look at; ``tests/unit/iceberg/test_pyiceberg_internals.py`` has a test for each. Each module covers one part of
PyIceberg, so that importing one does not load the rest:

* ``catalogs``: how a catalog opens files and places tables, and the tables of the SQL catalog.
* ``metadata``: updates of table metadata, and the indexes of a schema.
* ``avro``: manifests, manifest lists and their codecs.
* ``arrow``: the scan of data files.
* ``rest``: the connection of the REST catalog.
* ``hive``: the connection of the Hive catalog; needs the extra ``hive``.
"""
