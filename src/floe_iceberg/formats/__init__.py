"""Conversion between rows and files: Arrow types, casts, partitions, sort orders, Parquet metrics and Avro codecs."""
