"""The parts of the Iceberg specification that the audit needs: schemas, values, transforms and rules."""
