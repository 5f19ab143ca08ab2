// Sums blocks of the sizes given as arguments with the fusion kernels' own blockReduceSumV2.
// Prints a line a size; exits 0 where all sums are right, 1 where one is wrong, 2 on a CUDA error.
//
// What a shuffle returns for a lane that the block does not have is undefined: an H200 gives 0,
// which hides the fault, other GPUs give the lane's own value. Here it is NaN on every GPU.
//
// Compile with: nvcc -std=c++17 --expt-relaxed-constexpr -arch=sm_90a -I TREE/include -I TREE/3rdparty/spdlog/include
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>

#include <cstdio>
#include <cstdlib>

template <typename T>
__device__ T shuffled_from(unsigned int thread, T value) {
  return thread < blockDim.x ? value : static_cast<T>(__int_as_float(0x7fffffff));
}

template <typename T>
__device__ T strict_shfl_xor(unsigned int mask, T value, int lanes, int width) {
  return shuffled_from(threadIdx.x ^ lanes, __shfl_xor_sync(mask, value, lanes, width));
}

template <typename T>
__device__ T strict_shfl_down(unsigned int mask, T value, int lanes, int width) {
  bool const inside = (threadIdx.x & 31) + lanes < 32;
  return shuffled_from(threadIdx.x + (inside ? lanes : 0), __shfl_down_sync(mask, value, lanes, width));
}

// For the header below only; what it includes itself was included above.
#include "flashinfer/fp4_layout.cuh"
#include "flashinfer/logging.h"
#include "flashinfer/utils.cuh"
#include "flashinfer/vec_dtypes.cuh"
#define __shfl_xor_sync(mask, value, ...) strict_shfl_xor(mask, value, STRICT_ARGUMENTS(__VA_ARGS__, 32, 32))
#define __shfl_down_sync(mask, value, ...) strict_shfl_down(mask, value, STRICT_ARGUMENTS(__VA_ARGS__, 32, 32))
#define STRICT_ARGUMENTS(lanes, width, ...) lanes, width
#include "flashinfer/comm/trtllm_allreduce_fusion.cuh"

__global__ void sum_thread_numbers(float* sum) {
  float value = static_cast<float>(threadIdx.x + 1);
  flashinfer::trtllm_allreduce_fusion::utils::blockReduceSumV2<float, 1>(&value);
  if (threadIdx.x == 0) *sum = value;
}

int main(int count, char** arguments) {
  float* device_sum = nullptr;
  if (cudaMalloc(&device_sum, sizeof(float)) != cudaSuccess) return 2;
  bool right = true;
  for (int i = 1; i < count; ++i) {
    int const threads = std::atoi(arguments[i]);
    sum_thread_numbers<<<1, threads>>>(device_sum);
    cudaError_t status = cudaGetLastError();
    float sum = 0.0f;
    if (status == cudaSuccess) status = cudaMemcpy(&sum, device_sum, sizeof(sum), cudaMemcpyDeviceToHost);
    if (status != cudaSuccess) {
      std::printf("%d threads: %s\n", threads, cudaGetErrorString(status));
      return 2;
    }
    float const expected = 0.5f * static_cast<float>(threads) * static_cast<float>(threads + 1);
    std::printf("%d threads: sum %.1f, expected %.1f\n", threads, sum, expected);
    right = right && sum == expected;
  }
  return right ? 0 : 1;
}
