"""Rows and files: Arrow types, casts, partitions, sort orders, Parquet metrics, Avro codecs."""
