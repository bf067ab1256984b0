"""Discovery, validation, start and shutdown of plugins."""

from __future__ import annotations

import subprocess
import sys
import threading
from importlib.metadata import EntryPoint, PathDistribution
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from floe_core.errors import (
    ConfigurationError,
    PluginIncompatibleError,
    PluginLoadError,
    PluginNotFoundError,
    PluginTimeoutError,
)
from floe_core.plugins import (
    PLUGIN_CONTRACTS,
    HealthState,
    HealthStatus,
    PluginMetadata,
    PluginRegistry,
    PluginStatus,
    PluginType,
    QualityPlugin,
    SecretsPlugin,
    default_registry,
)

MODULE = """
import json, pathlib, sys
from floe_core.plugins import QualityPlugin, SecretsPlugin
class Good(QualityPlugin):
    name, version, floe_api_version, description = "good", "1.2.3", "1.0", "Checks rows."
class Newer(QualityPlugin):
    name, version, floe_api_version = "newer", "1.0.0", "1.1"
class Older(QualityPlugin):
    name, version, floe_api_version = "older", "1.0.0", "0.9"
class Vague(QualityPlugin):
    name, version, floe_api_version = "vague", "1.0.0", "one"
class Misnamed(QualityPlugin):
    name, version, floe_api_version = "other", "1.0.0", "1.0"
class Secretive(SecretsPlugin):
    name, version, floe_api_version = "secretive", "1.0.0", "1.0"
class Abstract(QualityPlugin):
    version, floe_api_version = "1.0.0", "1.0"
class Explosive(QualityPlugin):
    name, version, floe_api_version = "explosive", "1.0.0", "1.0"
    def __init__(self):
        raise RuntimeError("boom password=hunter2")
something = 3
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Give distributions with entry points, as pip leaves them on disk."""
    (tmp_path / "third_party.py").write_text(MODULE)
    (tmp_path / "needs_duckling.py").write_text("import duckling\n")
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(3)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    folders = []

    def _install(distribution: str, entries: dict[str, str], *, group="floe.quality", version="4.5.6", metadata=""):
        folder = tmp_path / f"{distribution.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        lines = "\n".join(f"{name} = {target}" for name, target in entries.items())
        (folder / "entry_points.txt").write_text(f"[{group}]\n{lines}\n")
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n{metadata}")
        folders.append(folder)

    def registry(**options: Any) -> PluginRegistry:
        found: list[EntryPoint] = [e for f in folders for e in PathDistribution(f).entry_points]
        return PluginRegistry(source=lambda: found, **options)

    _install.registry = registry
    return _install


def make(base: type[PluginMetadata] = QualityPlugin, **members: Any) -> PluginMetadata:
    fields = {"version": "1.0.0", "floe_api_version": "1.0", **members}
    return type("Made", (base,), fields)()


class Journal:
    """Plugins that write down when they start and stop."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def plugin(self, name: str, *, needs=(), base=QualityPlugin, fails: Exception | None = None) -> PluginMetadata:
        def startup(_self):
            if fails:
                raise fails
            self.events.append(f"start {name}")

        def shutdown(_self):
            self.events.append(f"stop {name}")

        return make(base, name=name, dependencies=list(needs), startup=startup, shutdown=shutdown)


@pytest.fixture
def journal():
    return Journal()


def registry_of(*plugins: PluginMetadata, **options: Any) -> PluginRegistry:
    registry = PluginRegistry(source=list, **options)
    for plugin in plugins:
        registry.register(plugin)
    return registry


@pytest.mark.req("PL-03")
def test_there_are_twelve_groups_each_with_a_contract():
    assert len(PluginType) == 12
    assert set(PLUGIN_CONTRACTS) == set(PluginType)
    assert all(issubclass(contract, PluginMetadata) for contract in PLUGIN_CONTRACTS.values())


@pytest.mark.req("PL-03")
def test_listing_imports_nothing(install):
    install("acme-checks", {"good": "third_party:Good", "gone": "no_such_module:X"})
    sys.modules.pop("third_party", None)
    infos = install.registry().list(PluginType.QUALITY)
    assert [(i.name, i.status, i.distribution, i.distribution_version) for i in infos] == [
        ("gone", PluginStatus.AVAILABLE, "acme-checks", "4.5.6"),
        ("good", PluginStatus.AVAILABLE, "acme-checks", "4.5.6"),
    ]
    assert "third_party" not in sys.modules


@pytest.mark.req("PL-01", "PL-04")
def test_a_listing_that_loads_tells_versions_and_failures_side_by_side(install):
    install("acme-checks", {"good": "third_party:Good", "gone": "no_such_module:X"})
    gone, good = install.registry().list(load=True)
    assert (good.status, good.version, good.api_version, good.description) == (
        PluginStatus.OK,
        "1.2.3",
        "1.0",
        "Checks rows.",
    )
    assert gone.status is PluginStatus.FAILED
    assert "no_such_module" in gone.reason


def test_a_listing_keeps_to_the_group_asked_for(install):
    install("acme-checks", {"good": "third_party:Good"})
    assert install.registry().list(PluginType.CATALOG) == []


def test_get_returns_the_same_instance(install):
    install("acme-checks", {"good": "third_party:Good"})
    registry = install.registry()
    assert registry.get(PluginType.QUALITY, "good") is registry.get(PluginType.QUALITY, "good")


def test_an_unknown_name_lists_what_is_installed_and_guesses(install):
    install("acme-checks", {"good": "third_party:Good", "newer": "third_party:Newer"})
    with pytest.raises(PluginNotFoundError, match=r"quality plugin 'goood'.*good, newer.*mean 'good'") as caught:
        install.registry().get(PluginType.QUALITY, "goood")
    assert caught.value.plugin == "floe.quality:goood"


def test_a_name_of_another_group_says_which(install):
    install("acme-checks", {"good": "third_party:Good"})
    with pytest.raises(PluginNotFoundError, match=r"secrets plugins: none.*'good' is a quality plugin"):
        install.registry().get(PluginType.SECRETS, "good")


@pytest.mark.req("PL-04")
@pytest.mark.parametrize(
    ("name", "target", "says"),
    [
        pytest.param("gone", "no_such_module:X", "No module named 'no_such_module'", id="missing module"),
        pytest.param("gone", "third_party:Nope", "has no attribute 'Nope'", id="missing class"),
        pytest.param("exits", "exits:X", "SystemExit: 3", id="exits on import"),
        pytest.param("number", "third_party:something", "is not a QualityPlugin.*of type int", id="no class"),
        pytest.param(
            "secretive", "third_party:Secretive", "is not a QualityPlugin.*class Secretive", id="wrong contract"
        ),
        pytest.param("abstract", "third_party:Abstract", "abstract", id="incomplete class"),
        pytest.param("explosive", "third_party:Explosive", "RuntimeError: boom", id="fails on construction"),
        pytest.param("misnamed", "third_party:Misnamed", "has the name 'other'", id="another name"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_named_with_its_distribution(install, name, target, says):
    install("acme-checks", {name: target})
    with pytest.raises(PluginLoadError, match=f"'{name}' of acme-checks 4.5.6.*{says}") as caught:
        install.registry().get(PluginType.QUALITY, name)
    assert caught.value.hint
    assert "hunter2" not in str(caught.value)


def test_a_missing_optional_dependency_names_the_extra(install):
    metadata = 'Provides-Extra: ducks\nRequires-Dist: duckling>=1; extra == "ducks"\n'
    install("acme-checks", {"ducky": "needs_duckling:Ducky"}, metadata=metadata)
    with pytest.raises(PluginLoadError, match=r"pip install 'acme-checks\[ducks\]'"):
        install.registry().get(PluginType.QUALITY, "ducky")


@pytest.mark.req("PL-01")
@pytest.mark.parametrize(
    ("name", "target", "says"),
    [
        ("newer", "third_party:Newer", "plugin API 1.1; floe supports 1.0. Upgrade floe"),
        ("older", "third_party:Older", "plugin API 0.9; floe supports 1.0. Upgrade the plugin"),
        ("vague", "third_party:Vague", "invalid plugin API version: 'one'.*X.Y"),
    ],
)
def test_a_plugin_of_another_api_is_refused(install, name, target, says):
    install("acme-checks", {name: target})
    with pytest.raises(PluginIncompatibleError, match=says):
        install.registry().get(PluginType.QUALITY, name)


def test_a_plugin_of_an_older_minor_api_is_accepted(install):
    install("acme-checks", {"good": "third_party:Good"})
    assert install.registry(api_version="1.4").get(PluginType.QUALITY, "good").name == "good"


def test_two_distributions_with_one_name_are_both_reported(install):
    install("acme-checks", {"good": "third_party:Good"})
    install("rival-checks", {"good": "third_party:Good"})
    registry = install.registry()
    with pytest.raises(PluginLoadError, match=r"acme-checks 4.5.6 and rival-checks 4.5.6.*Uninstall all but one"):
        registry.get(PluginType.QUALITY, "good")
    infos = registry.list(load=True)
    assert [info.distribution for info in infos] == ["acme-checks", "rival-checks"]
    assert all(info.status is PluginStatus.FAILED for info in infos)


def test_a_registered_plugin_stands_in_for_an_installed_one(install):
    install("acme-checks", {"good": "third_party:Good"})
    registry, stand_in = install.registry(), make(name="good")
    registry.register(stand_in)
    assert registry.get(PluginType.QUALITY, "good") is stand_in


def test_an_object_of_no_contract_cannot_be_registered():
    plugin = make(PluginMetadata, name="loose")
    with pytest.raises(PluginLoadError, match="not implement any of floe's plugin contracts"):
        registry_of(plugin)


class Settings(BaseModel):
    url: str
    password: SecretStr
    tries: int = 3


def configurable(received: list[BaseModel]) -> PluginMetadata:
    return make(
        name="c", get_config_schema=lambda _self: Settings, configure=lambda _self, config: received.append(config)
    )


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({"url": "x", "password": "p"}, id="mapping"),
        pytest.param(Settings(url="x", password=SecretStr("p")), id="model"),
        pytest.param(type("Other", (Settings,), {})(url="x", password=SecretStr("p")), id="derived model"),
    ],
)
def test_a_configuration_is_validated_and_handed_over(config):
    received: list[BaseModel] = []
    registry_of(configurable(received)).configure(PluginType.QUALITY, "c", config)
    (settings,) = received
    assert isinstance(settings, Settings)
    assert (settings.url, settings.password.get_secret_value(), settings.tries) == ("x", "p", 3)


def test_a_bad_configuration_names_every_field_and_no_value():
    with pytest.raises(ConfigurationError) as caught:
        registry_of(configurable([])).configure(PluginType.QUALITY, "c", {"password": ["hunter2"], "tries": "many"})
    assert {problem.path for problem in caught.value.problems} == {"url", "password", "tries"}
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_plugin_without_schema_takes_no_configuration():
    registry = registry_of(make(name="plain"))
    registry.configure(PluginType.QUALITY, "plain", {})
    with pytest.raises(ConfigurationError, match=r"does not accept a configuration\. Remove: colour"):
        registry.configure(PluginType.QUALITY, "plain", {"colour": "red"})


@pytest.mark.req("PL-02")
def test_plugins_start_after_what_they_need_and_stop_in_reverse(journal):
    registry = registry_of(
        journal.plugin("c", needs=["b", "floe.secrets:vault"]),
        journal.plugin("b", needs=["a"]),
        journal.plugin("a"),
        journal.plugin("vault", base=SecretsPlugin),
    )
    report = registry.startup()
    assert report.ok
    assert report.started == ("floe.quality:a", "floe.quality:b", "floe.secrets:vault", "floe.quality:c")
    assert registry.shutdown() == ()
    assert journal.events == [
        "start a",
        "start b",
        "start vault",
        "start c",
        "stop c",
        "stop vault",
        "stop b",
        "stop a",
    ]


def test_a_selection_brings_its_dependencies_and_nothing_else(journal):
    registry = registry_of(journal.plugin("b", needs=["a"]), journal.plugin("a"), journal.plugin("z"))
    assert registry.startup([(PluginType.QUALITY, "b")]).started == ("floe.quality:a", "floe.quality:b")


def test_starting_and_stopping_twice_does_it_once(journal):
    registry = registry_of(journal.plugin("a"))
    registry.startup()
    registry.startup()
    registry.shutdown()
    registry.shutdown()
    assert journal.events == ["start a", "stop a"]


@pytest.mark.req("PL-04")
def test_a_failing_plugin_is_reported_and_the_others_run(journal, install):
    install("acme-checks", {"gone": "no_such_module:X"})
    registry = install.registry()
    for plugin in (
        journal.plugin("bad", fails=RuntimeError("no route, token=hunter2hunter2")),
        journal.plugin("dependent", needs=["bad"]),
        journal.plugin("fine"),
    ):
        registry.register(plugin)
    report = registry.startup()
    assert report.started == ("floe.quality:fine",)
    reasons = {failure.plugin: str(failure) for failure in report.failures}
    assert set(reasons) == {"floe.quality:gone", "floe.quality:bad", "floe.quality:dependent"}
    assert "RuntimeError: no route" in reasons["floe.quality:bad"]
    assert "depends on floe.quality:bad, which did not start" in reasons["floe.quality:dependent"]
    assert "hunter2" not in str(reasons)
    with pytest.raises(PluginLoadError):
        report.raise_for_failures()


@pytest.mark.parametrize(
    ("needs", "says"),
    [
        ("nobody", "No quality plugin 'nobody' is installed"),
        ("floe.nonsense:x", "the plugin group 'floe.nonsense' does not exist"),
    ],
)
def test_a_dependency_that_cannot_be_is_explained(journal, needs, says):
    report = registry_of(journal.plugin("a", needs=[needs]), journal.plugin("fine")).startup()
    assert report.started == ("floe.quality:fine",)
    assert says in " ".join(map(str, report.failures))


def test_plugins_that_need_each_other_are_told_so_and_the_others_run(journal):
    report = registry_of(
        journal.plugin("a", needs=["b"]),
        journal.plugin("b", needs=["c"]),
        journal.plugin("c", needs=["a"]),
        journal.plugin("outside", needs=["a"]),
        journal.plugin("fine"),
    ).startup()
    assert report.started == ("floe.quality:fine",)
    texts = {failure.plugin: str(failure) for failure in report.failures}
    assert "floe.quality:a -> floe.quality:b -> floe.quality:c -> floe.quality:a" in texts["floe.quality:a"]
    assert set(texts) == {f"floe.quality:{name}" for name in ("a", "b", "c", "outside")}


@pytest.mark.req("PL-02")
def test_a_start_beyond_its_limit_is_given_up_and_undone_when_it_succeeds_late(journal):
    release, stopped = threading.Event(), threading.Event()
    slow = make(name="slow", startup=lambda _self: release.wait(10), shutdown=lambda _self: stopped.set())
    registry = registry_of(slow, journal.plugin("fine"), startup_seconds=0.05)
    report = registry.startup()
    (failure,) = report.failures
    assert isinstance(failure.error, PluginTimeoutError)
    assert "floe.quality:slow did not start within 0.05 s" in str(failure)
    assert report.started == ("floe.quality:fine",)
    release.set()
    assert stopped.wait(5)


@pytest.mark.req("PL-02")
def test_health_checks_answer_in_time_or_count_as_unhealthy():
    forever = threading.Event()
    registry = registry_of(
        make(name="well"),
        make(name="degraded", health_check=lambda _self: HealthStatus(HealthState.DEGRADED, "slow")),
        make(name="broken", health_check=lambda _self: 1 / 0),
        make(name="odd", health_check=lambda _self: "fine"),
        make(name="hangs", health_check=lambda _self: forever.wait(10)),
        health_check_seconds=0.05,
    )

    def ask(name):
        return registry.health_check(PluginType.QUALITY, name)

    assert ask("well").state is HealthState.HEALTHY
    assert ask("degraded").message == "slow"
    assert ask("degraded").ok
    assert "division" in ask("broken").message
    assert "instead of a HealthStatus" in ask("odd").message
    assert "within 0.05 s" in ask("hangs").message
    assert not any(ask(name).ok for name in ("broken", "odd", "hangs"))
    forever.set()
    with pytest.raises(PluginNotFoundError):
        ask("nobody")


def leave(_self):
    sys.exit("no vault")


@pytest.mark.req("PL-02")
def test_a_plugin_that_ends_the_process_has_failed_and_the_others_go_on(journal):
    registry = registry_of(
        journal.plugin("a"),
        make(name="starting", startup=leave),
        make(name="asked", health_check=leave),
        make(name="stopping", shutdown=leave),
        journal.plugin("z"),
    )
    report = registry.startup()
    assert [failure.plugin for failure in report.failures] == ["floe.quality:starting"]
    with pytest.raises(PluginLoadError, match=r"floe\.quality:starting tried to exit the process.*no vault"):
        report.raise_for_failures()
    status = registry.health_check(PluginType.QUALITY, "asked")
    assert (status.ok, "tried to exit the process" in status.message) == (False, True)
    assert [failure.plugin for failure in registry.shutdown()] == ["floe.quality:stopping"]
    assert journal.events == ["start a", "start z", "stop z", "stop a"]


def test_a_failure_names_its_plugin_whatever_the_plugin_raises(journal):
    error = PluginLoadError("no route", plugin="elsewhere")
    registry = registry_of(journal.plugin("vault", base=SecretsPlugin, fails=error))
    with pytest.raises(PluginLoadError, match=r"floe\.secrets:vault failed to start: PluginLoadError: no route"):
        registry.startup().raise_for_failures()


@pytest.mark.parametrize(
    ("state", "ok"), [("healthy", True), ("degraded", True), ("unhealthy", False), ("sick", False)]
)
def test_a_state_in_text_means_what_it_says(state, ok):
    registry = registry_of(make(name="a", health_check=lambda _self: HealthStatus(state)))
    assert registry.health_check(PluginType.QUALITY, "a").ok is ok


def test_a_plugin_that_cannot_stop_does_not_keep_the_others_up(journal):
    stubborn = make(name="stubborn", shutdown=lambda _self: 1 / 0)
    registry = registry_of(journal.plugin("a"), stubborn, journal.plugin("z"))
    registry.startup()
    (failure,) = registry.shutdown()
    assert "failed to shut down: ZeroDivisionError" in str(failure)
    assert journal.events[-2:] == ["stop z", "stop a"]


def test_many_threads_get_one_instance(install):
    install("acme-checks", {"good": "third_party:Good"})
    registry = install.registry()
    seen: list[int] = []
    threads = [
        threading.Thread(target=lambda: seen.append(id(registry.get(PluginType.QUALITY, "good")))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    assert len(set(seen)) == 1


@pytest.mark.req("PL-03")
def test_floes_own_plugins_are_found_in_the_running_environment():
    names = {(info.type, info.name) for info in default_registry().list()}
    assert {(PluginType.CATALOG, "sql"), (PluginType.STORAGE, "local"), (PluginType.COMPUTE, "spark")} <= names
    assert default_registry() is default_registry()


def test_listing_imports_no_engine():
    code = (
        "import sys; from floe_core.plugins import default_registry; default_registry().list();"
        "sys.exit(bool({'pyiceberg','pyarrow','pyspark','dagster'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
