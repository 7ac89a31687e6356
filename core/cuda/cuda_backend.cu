#include <cuda_runtime.h>

#include <cstdlib>
#include <string_view>

#include "core/cuda/blas.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/dnn.h"
#include "core/cuda/launch.h"
#include "core/cuda/memory.h"
#include "core/error.h"

namespace tandem::cuda {

void check(cudaError_t status, std::string_view call) {
  if (status == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // the error is reported here, and is not to be found again by the next call
  throw VendorError("cuda",
                    fmt::format("{}: {}: {}", call, cudaGetErrorName(status), cudaGetErrorString(status)));
}

namespace {

__global__ void early_kernel() { await_earlier_work(); }

bool is_hopper_or_later(int device) {
  int major = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
  return major >= 9;
}

}  // namespace

bool starts_early() {
  static const bool early = [] {
    const char* const asked = std::getenv("TANDEM_EARLY_START");
    if (asked != nullptr && std::string_view(asked) == "0") return false;
    // Kernels that were compiled from older PTX do not wait, whatever runs them.
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, early_kernel), "cudaFuncGetAttributes");
    int devices = 0;
    check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    bool all = attributes.ptxVersion >= 90;
    for (int i = 0; i < devices; ++i) all = all && is_hopper_or_later(i);
    return all;
  }();
  return early;
}

CudaBackend::CudaBackend(int index) : index_(index) {
  check(cudaSetDevice(index), "cudaSetDevice");
  starts_early();  // asks what is not to be asked first while a stream is captured
  for (cudaStream_t* stream : {&stream_, &upload_stream_})
    check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  for (cudaEvent_t* event : {&uploaded_, &awaited_})
    check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  for (cudaEvent_t& event : events_)
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  check(cudaHostAlloc(reinterpret_cast<void**>(&fault_), sizeof(Fault), cudaHostAllocMapped),
        "cudaHostAlloc");
  *fault_ = {};
  check(cudaMalloc(&update_room_, kUpdateRoom), "cudaMalloc");
  allocator_ = std::make_unique<CachingAllocator>(device_memory(index));
  transfer_allocator_ = std::make_unique<CachingAllocator>(page_locked_memory());
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  algorithms_.library = dnn::version();
  algorithms_.device = fmt::format("{}, {} multiprocessors", static_cast<const char*>(properties.name),
                                   properties.multiProcessorCount);
}

CudaBackend::~CudaBackend() {
  cudaStreamSynchronize(upload_stream_);
  cudaStreamSynchronize(stream_);
  transfer_allocator_.reset();
  dnn_.reset();
  blas_.reset();
  allocator_.reset();
  cudaFree(update_room_);
  cudaFreeHost(fault_);
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
  for (cudaEvent_t event : timing_events_) cudaEventDestroy(event);
  cudaEventDestroy(uploaded_);
  cudaEventDestroy(awaited_);
  cudaStreamDestroy(upload_stream_);
  cudaStreamDestroy(stream_);
}

void* CudaBackend::update_room(std::size_t bytes) const {
  ensure(bytes <= kUpdateRoom, "update", "{} bytes of room are asked for, there are {}", bytes, kUpdateRoom);
  return update_room_;
}

Blas& CudaBackend::blas() {
  if (!blas_) blas_ = std::make_unique<Blas>(*this);
  return *blas_;
}

dnn::Library& CudaBackend::dnn() {
  if (!dnn_) dnn_ = std::make_unique<dnn::Library>(*this);
  return *dnn_;
}

void CudaBackend::synchronize() {
  wait_for_stream();
  last_done_ = last_event_;
  check_fault();
}

void CudaBackend::check_fault() {
  if (static_cast<volatile const Fault*>(fault_)->raised == 2) [[unlikely]]
    throw_fault();
}

void CudaBackend::set_rules(const ComputeRules& rules) {
  rules_.allow_tf32 = rules.allow_tf32;
  rules_.deterministic = rules.deterministic;
  rules_.tune = rules.autotune;
}

bool CudaBackend::adopt_tuning_cache(const std::string& text) {
  const AlgorithmTable table = read_algorithms(text);
  if (!table.fits(algorithms_)) return false;
  for (const auto& [what, choice] : table.choices) algorithms_.choices.insert_or_assign(what, choice);
  return true;
}

void CudaBackend::throw_fault() {
  const Fault fault = *fault_;
  *fault_ = {};
  throw UserError(fault.op, fmt::format("index {} at position {} lies outside [0,{})", fault.index,
                                        fault.position, fault.bound));
}

// ---- Marks

std::uint64_t CudaBackend::record_event() {
  ++last_event_;
  // The slot's earlier event is forgotten, which is safe once it is done.
  if (last_event_ > kEvents && last_done_ < last_event_ - kEvents) wait_event(last_event_ - kEvents);
  check(cudaEventRecord(events_[last_event_ % kEvents], stream_), "cudaEventRecord");
  return last_event_;
}

bool CudaBackend::event_done(std::uint64_t event) {
  if (event <= last_done_) return true;
  const cudaError_t status = cudaEventQuery(events_[event % kEvents]);
  if (status == cudaErrorNotReady) return false;
  check(status, "cudaEventQuery");
  last_done_ = event;
  return true;
}

void CudaBackend::wait_event(std::uint64_t event) {
  if (event <= last_done_) return;
  wait_for(events_[event % kEvents]);
  last_done_ = event;
  check_fault();
}

}  // namespace tandem::cuda
