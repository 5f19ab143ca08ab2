"""Compiles or finds the communication module, and prints its path as JSON."""

import json

from flashinfer.comm.trtllm_ar import get_trtllm_comm_module
from flashinfer.jit.comm import gen_trtllm_comm_module

specification = gen_trtllm_comm_module()
get_trtllm_comm_module()
print("\n" + json.dumps({"object": str(specification.get_library_path())}))
