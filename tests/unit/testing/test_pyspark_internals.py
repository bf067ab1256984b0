"""PySpark's private API behaves as floe expects; failures name the code to change after an upgrade.

Needs no Java; the conformance tests use the same attributes with Java.
"""

from __future__ import annotations

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

ATTRIBUTES_OF_A_SESSION = {*SparkSession.__init__.__code__.co_names, *vars(SparkSession)}
ATTRIBUTES_OF_A_CONTEXT = set(vars(SparkContext))


@pytest.mark.parametrize(
    ("name", "present", "function"),
    [
        ("SparkSession._jvm", ATTRIBUTES_OF_A_SESSION, "jvm_of"),
        ("SparkSession._jsparkSession", ATTRIBUTES_OF_A_SESSION, "java_session_of"),
        ("SparkContext._gateway", ATTRIBUTES_OF_A_CONTEXT, "array_of_ints"),
    ],
)
def test_a_classic_session_has_the_name(name, present, function):
    assert name.partition(".")[2] in present, (
        f"PySpark no longer has {name}: change {function} in floe_testing/java/pyspark_internals.py."
    )
