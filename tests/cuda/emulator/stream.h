// Streams, events and captures: when work is executed, and what is recorded instead.
//
// A stream is a queue. Its work is executed when something waits for it, in the order of the queue; a wait
// for an event first executes the event's stream up to the event. A stream that is captured executes nothing:
// its work becomes nodes of a graph, each after the nodes its stream had to wait for.
//
// Work that other processes take part in may not come to its end at once: it is looked after until it has
// ended, by calls that wait, or once by calls that only ask.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace cuda_emulator {

using Work = std::function<void()>;
// Helps along what has begun; whether it has ended. And what begins it.
using Progress = std::function<bool()>;
using Begin = std::function<Progress()>;

// A place in the queue of a stream.
struct Point {
  Stream* stream = nullptr;
  bool reached = false;
  std::optional<int> denials;  // how often it is still said not to be reached; drawn when it is first asked
  std::chrono::steady_clock::time_point time;
};

// The time that events see: the host's, and what executed work spent besides.
std::chrono::steady_clock::time_point now();
// What a piece of work did to it, and to the second cache, which is warm from now on.
void spend(double seconds);
// Whether the last work wrote as much as the second cache holds.
bool is_cache_cold();
void chill_cache(std::size_t bytes);
inline constexpr std::size_t kSecondCache = std::size_t{1} << 20;  // bytes

struct Operation {
  Work work;
  std::shared_ptr<Point> awaited, mark;
  Begin begin;  // instead of `work`
  Progress progress;
};

struct Node {
  Work work;
  std::vector<std::size_t> after;
  Begin begin;  // instead of `work`
};

struct Graph {
  std::vector<Node> nodes;
};
struct ExecutableGraph {
  std::shared_ptr<const Graph> graph;
};

struct Capture {
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  Stream* origin;
  bool valid = true;
  std::vector<Stream*> streams;  // the origin and those that joined
  Graph graph;
};

struct Stream {
  bool blocking = true;  // waits for the legacy stream, and the other way about
  std::deque<Operation> queue;
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> tail;  // of a capture: what the next node comes after
};

struct Event {
  bool timed = true;
  std::shared_ptr<Point> point;  // where it was last recorded, or
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> tail;
};

// Held by every function of the interface.
std::recursive_mutex& lock();

// The stream itself, or the legacy stream for nullptr; nullptr when there is no such stream.
Stream* find(cudaStream_t stream);
// All streams, the legacy stream first.
const std::vector<Stream*>& streams();
Stream* add_stream(bool blocking);
void remove_stream(Stream* stream);

// Puts work on a stream, or into its capture.
cudaError_t enqueue(cudaStream_t stream, Work work);
cudaError_t enqueue_progress(cudaStream_t stream, Begin begin);
// Executes the stream's work up to `point`, or all; whether it came so far. Who is not patient does not wait
// for other processes.
bool run(Stream& stream, const Point* point = nullptr, bool patient = true);
void run_all();
void set_eager_execution(bool eager);
bool is_eager();

// Executes a graph, in the order of `order` (block.h) where it leaves a choice.
Progress replay(std::shared_ptr<const Graph> graph);

// ---- Captures

// What keeps a call from being made while a stream is captured; cudaSuccess if nothing does. The captures it
// disturbs are no longer valid.
cudaError_t unsafe_call();
// Of a call that waits for `stream` or asks for its state.
cudaError_t check_not_captured(Stream& stream);
// Of a call that orders itself with all blocking streams.
cudaError_t check_legacy();
void invalidate(Capture& capture);

}  // namespace cuda_emulator
