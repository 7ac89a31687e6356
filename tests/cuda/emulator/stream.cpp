#include "tests/cuda/emulator/stream.h"

#include <algorithm>
#include <cstdlib>

#include "tests/cuda/emulator/block.h"
#include "tests/cuda/emulator/memory.h"

namespace cuda_emulator {

namespace {

std::vector<Stream*>& all_streams() {
  static std::vector<Stream*> streams{new Stream};
  return streams;
}

bool& eager() {
  static bool eager = [] {
    const char* text = std::getenv("TANDEM_EMULATOR_EAGER");
    return text != nullptr && *text != '\0' && *text != '0';
  }();
  return eager;
}

// Everything that is on the stream now.
std::shared_ptr<Point> end_of(Stream& stream) {
  auto point = std::make_shared<Point>(Point{.stream = &stream});
  stream.queue.push_back({.mark = point});
  return point;
}

// The legacy stream and blocking streams wait for each other.
void order_with_legacy(Stream& stream) {
  Stream& legacy = *streams().front();
  if (&stream != &legacy) {
    if (stream.blocking && !legacy.queue.empty()) stream.queue.push_back({.awaited = end_of(legacy)});
    return;
  }
  for (Stream* other : streams()) {
    if (other != &legacy && other->blocking && !other->queue.empty())
      legacy.queue.push_back({.awaited = end_of(*other)});
  }
}

}  // namespace

std::recursive_mutex& lock() {
  static std::recursive_mutex mutex;
  return mutex;
}

const std::vector<Stream*>& streams() { return all_streams(); }

Stream* find(cudaStream_t stream) {
  if (stream == nullptr) return streams().front();
  return std::find(streams().begin() + 1, streams().end(), stream) != streams().end() ? stream : nullptr;
}

Stream* add_stream(bool blocking) {
  all_streams().push_back(new Stream{.blocking = blocking});
  return all_streams().back();
}

void remove_stream(Stream* stream) {
  run(*stream);
  std::erase(all_streams(), stream);
  delete stream;
}

void set_eager_execution(bool value) {
  eager() = value;
  if (value) run_all();
}

bool is_eager() { return eager(); }

cudaError_t enqueue(cudaStream_t handle, Work work) {
  Stream* stream = find(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (const auto& capture = stream->capture) {
    if (!capture->valid) return cudaErrorStreamCaptureInvalidated;
    capture->graph.nodes.push_back({std::move(work), stream->tail});
    stream->tail = {capture->graph.nodes.size() - 1};
    return cudaSuccess;
  }
  if (handle == nullptr) {
    if (const cudaError_t error = check_legacy()) return error;
  }
  order_with_legacy(*stream);
  stream->queue.push_back({.work = std::move(work)});
  if (eager()) run(*stream);
  return cudaSuccess;
}

void run(Stream& stream, const Point* point) {
  if (stream.queue.empty() || (point && point->reached)) return;
  const DeviceAccess access;
  while (!stream.queue.empty() && !(point && point->reached)) {
    const Operation operation = std::move(stream.queue.front());
    stream.queue.pop_front();
    if (const auto& awaited = operation.awaited; awaited && !awaited->reached)
      run(*awaited->stream, awaited.get());
    if (operation.work) operation.work();
    if (operation.mark) {
      operation.mark->reached = true;
      operation.mark->time = std::chrono::steady_clock::now();
    }
  }
}

void run_all() {
  for (Stream* stream : streams()) run(*stream);
}

void replay(const Graph& graph) {
  const std::size_t count = graph.nodes.size();
  std::vector<std::size_t> missing(count);
  std::vector<std::vector<std::size_t>> followers(count);
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < count; ++i) {
    missing[i] = graph.nodes[i].after.size();
    for (const std::size_t before : graph.nodes[i].after) followers[before].push_back(i);
    if (missing[i] == 0) ready.push_back(i);
  }
  std::vector<unsigned> positions;
  while (!ready.empty()) {
    arrange(ready.size(), positions);
    std::sort(ready.begin(), ready.end());
    const std::size_t node = ready[positions.front()];
    ready.erase(ready.begin() + positions.front());
    graph.nodes[node].work();
    for (const std::size_t follower : followers[node]) {
      if (--missing[follower] == 0) ready.push_back(follower);
    }
  }
}

}  // namespace cuda_emulator
