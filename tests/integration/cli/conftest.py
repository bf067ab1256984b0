"""Projects for tests of commands."""

from __future__ import annotations

import pytest


@pytest.fixture
def lay_out(tmp_path, request):
    """Write a project and its module; the module's name, which stands for MODULE, belongs to one test alone."""

    def write(project, assets):
        module = f"assets_of_{abs(hash(request.node.nodeid))}"
        (tmp_path / "floe.yaml").write_text(project.replace("MODULE", module))
        (tmp_path / f"{module}.py").write_text(assets)
        return tmp_path

    return write
