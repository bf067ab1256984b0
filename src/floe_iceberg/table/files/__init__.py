"""Files of a table: find live files, group them for rewrites and delete them."""
