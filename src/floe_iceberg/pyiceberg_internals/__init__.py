"""Adapters for PyIceberg's private API, which floe uses nowhere else.

Names that start with ``_``, and functions behind PyIceberg's documented interface, may change with any release. floe
only uses them through these modules, so an upgrade has a single place to check;
``tests/unit/iceberg/test_pyiceberg_internals.py`` has a test for each. Each module covers one part of PyIceberg, so
importing one does not load the others:

* ``catalogs``: a catalog's FileIO and table locations, and the tables of the SQL catalog.
* ``metadata``: updates of table metadata, and the indexes of a schema.
* ``avro``: manifests, manifest lists and their codecs.
* ``arrow``: the scan of data files.
* ``rest``: the connection of the REST catalog.
* ``hive``: the connection of the Hive catalog; needs the extra ``hive``.
"""
