"""The commands ``kernels`` and ``census``."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from forkwheel.build_commands import open_shop
from forkwheel.cli import Commands
from forkwheel.console import Console
from forkwheel.cuda.build_root import ROOT
