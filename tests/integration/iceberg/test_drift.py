from __future__ import annotations

import pytest

from floe_core.declaration.drift import DriftDetectorProtocol, DriftKind, DriftSeverity
from floe_core.schemas import TableConfig
from floe_iceberg.table.declared.drift import DriftDetector
from floe_iceberg.table.lifecycle import create_from_config

pytest_plugins = ["floe_testing.table_fixtures"]

NAME = "bronze.orders"
DECLARED = {
    "description": "Orders as they come in.",
    "columns": [
        {"name": "id", "type": "long", "required": True, "doc": "Key."},
        {"name": "at", "type": "timestamptz"},
        {"name": "amount", "type": "decimal(10, 2)"},
        {"name": "address", "type": "struct<city: string, zip: string>"},
        {"name": "tags", "type": "list<string>"},
        {"name": "extra", "type": "map<string, int>"},
    ],
    "partition_by": ["day(at)", "bucket(16, id)"],
    "sort_by": ["at desc nulls last"],
    "properties": {"write.parquet.compression-codec": "zstd"},
    "retention": {"min_snapshots": 5},
}


@pytest.fixture
def detect(context):
    """Create the table as declared, and compare it with a declaration that was changed."""
    create_from_config(context, NAME, TableConfig.model_validate(DECLARED))

    def compare(**changes):
        declared = TableConfig.model_validate({**DECLARED, **changes})
        return DriftDetector(context).detect(NAME, declared)

    return compare


def column(name, **changes):
    columns = [dict(column) for column in DECLARED["columns"]]
    next(entry for entry in columns if entry["name"] == name).update(changes)
    return columns


def only(report):
    assert len(report.items) == 1, report
    return report.items[0]


def test_a_table_as_declared_has_not_drifted(detect):
    report = detect()
    assert report.items == ()
    assert not report.drifted
    assert not report.breaking


@pytest.mark.req("TM-13")
def test_who_knows_the_protocol_alone_hears_of_drift(context, detect):
    def drifted(detector: DriftDetectorProtocol, *names: str) -> list[str]:
        declared = TableConfig.model_validate(DECLARED)
        return [item.kind.value for name in names for item in detector.detect(name, declared).items]

    detector = DriftDetector(context)
    assert isinstance(detector, DriftDetectorProtocol)
    assert detect().items == ()
    assert drifted(detector, NAME, "bronze.nothing") == [DriftKind.TABLE.value]


def test_a_missing_table_is_drift(context):
    item = only(DriftDetector(context).detect("bronze.nothing", TableConfig.model_validate(DECLARED)))
    assert (item.kind, item.severity) == (DriftKind.TABLE, DriftSeverity.BREAKING)
    assert "floe tables create bronze.nothing" in item.fix


@pytest.mark.parametrize(
    ("required", "severity"),
    [(False, DriftSeverity.WARNING), (True, DriftSeverity.BREAKING)],
    ids=["optional", "required"],
)
def test_a_column_the_table_lacks(detect, required, severity):
    item = only(detect(columns=[*DECLARED["columns"], {"name": "note", "type": "string", "required": required}]))
    assert (item.kind, item.path, item.actual, item.severity) == (DriftKind.MISSING_COLUMN, "note", None, severity)


def test_a_column_nobody_declared(detect):
    item = only(detect(columns=[entry for entry in DECLARED["columns"] if entry["name"] != "tags"]))
    assert (item.kind, item.path, item.actual) == (DriftKind.EXTRA_COLUMN, "tags", "list<string>")


@pytest.mark.parametrize(
    ("name", "declared", "path", "severity"),
    [
        ("amount", "decimal(12, 2)", "amount", DriftSeverity.WARNING),
        ("amount", "string", "amount", DriftSeverity.BREAKING),
        ("id", "int", "id", DriftSeverity.BREAKING),
        ("tags", "list<long>", "tags.element", DriftSeverity.BREAKING),
        ("extra", "map<string, long>", "extra.value", DriftSeverity.WARNING),
        ("address", "struct<city: string, zip: int>", "address.zip", DriftSeverity.BREAKING),
        ("tags", "string", "tags", DriftSeverity.BREAKING),
    ],
)
def test_a_type_that_differs(detect, name, declared, path, severity):
    item = only(detect(columns=column(name, type=declared)))
    assert (item.kind, item.path, item.severity) == (DriftKind.TYPE, path, severity)
    assert item.declared in declared


def test_a_nested_field_that_is_new(detect):
    item = only(detect(columns=column("address", type="struct<city: string, zip: string, country: string>")))
    assert (item.kind, item.path) == (DriftKind.MISSING_COLUMN, "address.country")


def test_nullability_both_ways(detect):
    item = only(detect(columns=column("amount", required=True)))
    assert (item.kind, item.severity) == (DriftKind.NULLABILITY, DriftSeverity.BREAKING)
    item = only(detect(columns=column("id", required=False)))
    assert (item.declared, item.actual, item.severity) == ("optional", "required", DriftSeverity.WARNING)


def test_a_comment_that_differs(detect):
    item = only(detect(columns=column("id", doc="Primary key.")))
    assert (item.kind, item.declared, item.actual) == (DriftKind.DOC, "'Primary key.'", "'Key.'")
    assert item.severity is DriftSeverity.INFO


def test_columns_in_another_order(detect):
    item = only(detect(columns=list(reversed(DECLARED["columns"]))))
    assert item.kind is DriftKind.COLUMN_ORDER


def test_partitioning_that_differs(detect):
    item = only(detect(partition_by=["month(at)"]))
    assert (item.kind, item.declared, item.actual) == (
        DriftKind.PARTITIONING,
        "month(at)",
        "day(at), bucket(16, id)",
    )


def test_a_sort_order_that_differs(detect):
    item = only(detect(sort_by=[]))
    assert (item.kind, item.declared, item.actual) == (DriftKind.SORT_ORDER, None, "at desc nulls last")


def test_properties_that_differ(detect):
    report = detect(properties={"write.parquet.compression-codec": "snappy", "owner": "sales"}, description="Other.")
    assert {(item.path, item.declared, item.actual) for item in report.of(DriftKind.PROPERTY)} == {
        ("comment", "Other.", "Orders as they come in."),
        ("owner", "sales", None),
        ("write.parquet.compression-codec", "snappy", "zstd"),
    }


def test_a_location_that_differs(detect):
    assert only(detect(location="s3://elsewhere/orders")).kind is DriftKind.LOCATION


def test_a_declaration_without_columns_leaves_them_alone(detect):
    assert detect(columns=[]).items == ()


def test_the_most_severe_comes_first_and_each_reads_as_a_line(detect):
    report = detect(columns=[*column("amount", type="string"), {"name": "note", "type": "string"}], sort_by=[])
    assert [item.severity.value for item in report.items] == ["breaking", "warning", "info"]
    assert str(report.items[0]).startswith("breaking type amount: declared string, actual decimal(10, 2). ")
    assert report.breaking
