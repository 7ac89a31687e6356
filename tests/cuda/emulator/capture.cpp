// Stream capture and graphs, with the runtime's restrictions on captured streams.
#include <algorithm>

#include "tests/cuda/emulator/call.h"
#include "tests/cuda/emulator/stream.h"

using cuda_emulator::Call;
using cuda_emulator::Capture;
using cuda_emulator::ExecutableGraph;
using cuda_emulator::Graph;
using cuda_emulator::Stream;

namespace cuda_emulator {

namespace {

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

// All captures in progress, without duplicates.
std::vector<Capture*> captures() {
  std::vector<Capture*> result;
  for (Stream* stream : streams()) {
    if (stream->capture && stream->capture->origin == stream) result.push_back(stream->capture.get());
  }
  return result;
}

// Whether the origin's last node depends on all nodes of the joined streams.
bool is_joined(const Capture& capture) {
  const auto& nodes = capture.graph.nodes;
  std::vector<bool> reached(nodes.size());
  for (const std::size_t node : capture.origin->tail) reached[node] = true;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    if (!reached[i]) return false;
    for (const std::size_t before : nodes[i].after) reached[before] = true;
  }
  return true;
}

}  // namespace

void invalidate(Capture& capture) { capture.valid = false; }

cudaError_t unsafe_call() {
  if (thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  bool disturbed = false;
  for (Capture* capture : captures()) {
    const bool own = capture->thread == std::this_thread::get_id();
    if (own ? capture->mode == cudaStreamCaptureModeRelaxed
            : capture->mode != cudaStreamCaptureModeGlobal || thread_mode != cudaStreamCaptureModeGlobal)
      continue;
    invalidate(*capture);
    disturbed = true;
  }
  return disturbed ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t check_not_captured(Stream& stream) {
  if (!stream.capture) return cudaSuccess;
  if (!stream.capture->valid) return cudaErrorStreamCaptureInvalidated;
  invalidate(*stream.capture);
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t check_legacy() {
  bool disturbed = false;
  for (Stream* stream : streams()) {
    if (!stream->capture || !stream->blocking) continue;
    invalidate(*stream->capture);
    disturbed = true;
  }
  return disturbed ? cudaErrorStreamCaptureImplicit : cudaSuccess;
}

}  // namespace cuda_emulator

using cuda_emulator::find;
using cuda_emulator::thread_mode;

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  const Call call;
  Stream* stream = find(handle);
  if (stream == nullptr) return call.result(cudaErrorInvalidResourceHandle);
  if (handle == nullptr) return call.result(cudaErrorStreamCaptureUnsupported);
  if (stream->capture) return call.result(cudaErrorInvalidValue);
  stream->capture = std::make_shared<Capture>(Capture{.mode = mode,
                                                      .thread = std::this_thread::get_id(),
                                                      .origin = stream,
                                                      .streams = {stream},
                                                      .graph = {}});
  stream->tail.clear();
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const Call call;
  *graph = nullptr;
  Stream* stream = find(handle);
  if (stream == nullptr) return call.result(cudaErrorInvalidResourceHandle);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture) return call.result(cudaErrorInvalidValue);
  if (capture->origin != stream) {
    cuda_emulator::invalidate(*capture);
    return call.result(cudaErrorStreamCaptureUnmatched);
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id())
    return call.result(cudaErrorStreamCaptureWrongThread);
  const bool joined = cuda_emulator::is_joined(*capture);
  for (Stream* each : capture->streams) {
    if (find(each) != nullptr && each->capture == capture) each->capture.reset();
  }
  if (!capture->valid) return call.result(cudaErrorStreamCaptureInvalidated);
  if (!joined) return call.result(cudaErrorStreamCaptureUnjoined);
  *graph = new Graph(std::move(capture->graph));
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  const Call call;
  Stream* stream = find(handle);
  if (stream == nullptr) return call.result(cudaErrorInvalidResourceHandle);
  if (handle == nullptr) {
    if (const cudaError_t error = cuda_emulator::check_legacy()) return call.result(error);
  }
  *status = !stream->capture         ? cudaStreamCaptureStatusNone
            : stream->capture->valid ? cudaStreamCaptureStatusActive
                                     : cudaStreamCaptureStatusInvalidated;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  const Call call;
  if (graph == nullptr) return call.result(cudaErrorInvalidValue);
  if (cuda_emulator::is_to_fail("cudaGraphInstantiate")) return call.result(cudaErrorMemoryAllocation);
  cuda_emulator::counters().graph_nodes += graph->nodes.size();
  *executable = new ExecutableGraph{std::make_shared<const Graph>(*graph)};
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  const Call call;
  if (graph == nullptr || nodes != nullptr) return call.result(cudaErrorNotSupported);
  *count = graph->nodes.size();
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t stream) {
  const Call call;
  return call.result(cuda_emulator::enqueue(stream, [] {}));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const Call call;
  if (executable == nullptr) return call.result(cudaErrorInvalidValue);
  if (cuda_emulator::is_to_fail("cudaGraphLaunch")) return call.result(cudaErrorMemoryAllocation);
  ++cuda_emulator::counters().graph_launches;
  // Keeps the graph alive, since it may be destroyed before it has run.
  return call.result(cuda_emulator::enqueue_progress(
      stream, [graph = executable->graph] { return cuda_emulator::replay(graph); }));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const Call call;
  delete executable;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const Call call;
  delete graph;
  return cudaSuccess;
}
