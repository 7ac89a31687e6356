#include "tests/cuda/emulator/stream.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "tests/cuda/emulator/block.h"
#include "tests/cuda/emulator/memory.h"

namespace cuda_emulator {

namespace {

// Never destroyed: at exit, a thread may still execute streams.
std::vector<Stream*>& all_streams() {
  static auto* const streams = new std::vector<Stream*>{new Stream};
  return *streams;
}

bool& eager() {
  static bool eager = [] {
    const char* text = std::getenv("TANDEM_EMULATOR_EAGER");
    return text != nullptr && *text != '\0' && *text != '0';
  }();
  return eager;
}

// The current end of the stream's queue.
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

namespace {

std::chrono::duration<double> spent{0};
bool cache_is_cold = false;

}  // namespace

std::chrono::steady_clock::time_point now() {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(spent);
}
void spend(double seconds) {
  spent += std::chrono::duration<double>(seconds);
  cache_is_cold = false;
}
bool is_cache_cold() { return cache_is_cold; }
void chill_cache(std::size_t bytes) { cache_is_cold = bytes >= kSecondCache; }

std::recursive_mutex& lock() {
  static std::recursive_mutex mutex;
  return mutex;
}

const std::vector<Stream*>& streams() { return all_streams(); }

Stream* find(cudaStream_t stream) {
  if (stream == nullptr) return streams().front();
  return std::find(streams().begin() + 1, streams().end(), stream) != streams().end() ? stream : nullptr;
}

namespace {

// A GPU works while its host waits for something else, e.g. another process whose GPU waits for this one.
// With TANDEM_EMULATOR_PROGRESS a thread executes the streams.
void work_on_alone() {
  static bool stopped = false;  // protected by the lock
  std::thread([] {
    while (true) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const std::lock_guard<std::recursive_mutex> held(lock());
      if (stopped) return;
      for (Stream* stream : streams()) run(*stream, nullptr, false);
    }
  }).detach();
  std::atexit([] {
    const std::lock_guard<std::recursive_mutex> held(lock());
    stopped = true;
  });
}

}  // namespace

Stream* add_stream(bool blocking) {
  static const bool alone = [] {
    const char* text = std::getenv("TANDEM_EMULATOR_PROGRESS");
    const bool asked = text != nullptr && *text != '\0' && *text != '0';
    if (asked) work_on_alone();
    return asked;
  }();
  static_cast<void>(alone);
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

namespace {

cudaError_t put(cudaStream_t handle, Work work, Begin begin) {
  Stream* stream = find(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (const auto& capture = stream->capture) {
    if (!capture->valid) return cudaErrorStreamCaptureInvalidated;
    capture->graph.nodes.push_back({std::move(work), stream->tail, std::move(begin)});
    stream->tail = {capture->graph.nodes.size() - 1};
    return cudaSuccess;
  }
  if (handle == nullptr) {
    if (const cudaError_t error = check_legacy()) return error;
  }
  order_with_legacy(*stream);
  stream->queue.push_back({.work = std::move(work), .begin = std::move(begin)});
  if (eager()) run(*stream);
  return cudaSuccess;
}

// Whether the operation is complete.
bool advance(Operation& operation, bool patient) {
  if (operation.begin) {
    operation.progress = operation.begin();
    operation.begin = nullptr;
  }
  if (!operation.progress) return true;
  while (!operation.progress()) {
    if (!patient) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

}  // namespace

cudaError_t enqueue(cudaStream_t stream, Work work) { return put(stream, std::move(work), {}); }
cudaError_t enqueue_progress(cudaStream_t stream, Begin begin) { return put(stream, {}, std::move(begin)); }

bool run(Stream& stream, const Point* point, bool patient) {
  if (stream.queue.empty() || (point && point->reached)) return true;
  const DeviceAccess access;
  while (!stream.queue.empty() && !(point && point->reached)) {
    Operation& next = stream.queue.front();
    if (const auto awaited = next.awaited; awaited && !awaited->reached) {
      if (!run(*awaited->stream, awaited.get(), patient)) return false;
    }
    if (!advance(next, patient)) return false;
    const Operation operation = std::move(next);
    stream.queue.pop_front();
    if (operation.work) operation.work();
    if (operation.mark) {
      operation.mark->reached = true;
      operation.mark->time = now();
    }
  }
  return true;
}

void run_all() {
  for (Stream* stream : streams()) run(*stream);
}

namespace {

class Replay {
 public:
  explicit Replay(std::shared_ptr<const Graph> graph)
      : graph_(std::move(graph)),
        missing_(graph_->nodes.size()),
        followers_(graph_->nodes.size()),
        progress_(graph_->nodes.size()) {
    for (std::size_t i = 0; i < missing_.size(); ++i) {
      missing_[i] = graph_->nodes[i].after.size();
      for (const std::size_t before : graph_->nodes[i].after) followers_[before].push_back(i);
      if (missing_[i] == 0) ready_.push_back(i);
    }
  }

  // Returns whether all work was executed; false if the rest waits for other processes.
  bool advance() {
    while (!ready_.empty()) {
      if (!execute_one()) return false;
    }
    return true;
  }

 private:
  bool execute_one() {
    std::vector<unsigned> positions;
    arrange(ready_.size(), positions);
    std::sort(ready_.begin(), ready_.end());
    for (const unsigned position : positions) {
      const std::size_t node = ready_[position];
      if (!has_ended(node)) continue;
      ready_.erase(ready_.begin() + position);
      for (const std::size_t follower : followers_[node]) {
        if (--missing_[follower] == 0) ready_.push_back(follower);
      }
      return true;
    }
    return false;
  }

  bool has_ended(std::size_t index) {
    const Node& node = graph_->nodes[index];
    if (node.begin) {
      if (!progress_[index]) progress_[index] = node.begin();
      return progress_[index]();
    }
    node.work();
    return true;
  }

  std::shared_ptr<const Graph> graph_;
  std::vector<std::size_t> missing_;
  std::vector<std::vector<std::size_t>> followers_;
  std::vector<Progress> progress_;
  std::vector<std::size_t> ready_;
};

}  // namespace

Progress replay(std::shared_ptr<const Graph> graph) {
  return [state = std::make_shared<Replay>(std::move(graph))] { return state->advance(); };
}

}  // namespace cuda_emulator
