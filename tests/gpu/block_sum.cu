// Sums blocks of the sizes given as arguments with the fusion kernels' own blockReduceSumV2.
// Prints a line a size; exits 0 where all sums are right, 1 where one is wrong, 2 on a CUDA error.
//
// Compile with: nvcc -std=c++17 --expt-relaxed-constexpr -arch=sm_90a -I TREE/include -I TREE/3rdparty/spdlog/include
#include <cstdio>
#include <cstdlib>

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
    float sum = 0.0f;
    cudaError_t const status = cudaMemcpy(&sum, device_sum, sizeof(sum), cudaMemcpyDeviceToHost);
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
