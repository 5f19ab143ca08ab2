"""What tests of the GPU checks share: a run's setting, without a GPU."""

from pathlib import Path

from forkwheel.gpu.devices import Device, Machine
from forkwheel.gpu.environment import Environment, InstalledWheel
from forkwheel.gpu.job import Limits
from forkwheel.gpu.plan_file import load_plan
from forkwheel.gpu.smoke import Setting
from forkwheel.recipe import load_recipe

RECIPE = Path(__file__).parents[1] / "recipes" / "sm120"


def setting(capability=(9, 0), name="NVIDIA H200"):
    device = Device(0, name, capability, 132, 1 << 37, clusters=True)
    return Setting(
        recipe=load_recipe(RECIPE / "recipe.toml"),
        plan=load_plan(RECIPE),
        manifest={"recipe": {"name": "sm120", "revision": 1}, "packages": []},
        machine=Machine((device, device), (13, 0), "580.1"),
        environment=Environment(Path("base"), Path("python"), Path("site"), "2.11.0", "13.0", "3.12.3"),
        wheels=(InstalledWheel(Path("a.whl"), "a" * 64), InstalledWheel(Path("b.whl"), "b" * 64)),
        worlds={2: (0, 1)},
        work=Path("work"),
        limits=Limits(),
    )
