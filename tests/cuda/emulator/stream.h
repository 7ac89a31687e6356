// Streams, events and captures: execution and recording of work.
//
// A stream is a queue. Its work is executed when something waits for it, in the order of the queue; a wait
// for an event first executes the event's stream up to the event. A captured stream executes nothing: its
// work becomes nodes of a graph, each after the nodes that its stream had to wait for.
//
// Work that involves other processes may not complete at once: waiting calls advance it until it is complete,
// polling calls advance it once.
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
// Advances work and returns whether it is complete; Begin starts the work.
using Progress = std::function<bool()>;
using Begin = std::function<Progress()>;

// A position in a stream's queue.
struct Point {
  Stream* stream = nullptr;
  bool reached = false;
  std::optional<int> denials;  // remaining polls that report "not reached"; set by the first poll
  std::chrono::steady_clock::time_point time;
};

// Time seen by events: real time plus the simulated durations of executed work.
std::chrono::steady_clock::time_point now();
// Adds a work item's duration, and marks L2 as warm.
void spend(double seconds);
// Whether the last work wrote as much as L2 holds.
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
  std::vector<Stream*> streams;  // the origin and the joined streams
  Graph graph;
};

struct Stream {
  bool blocking = true;  // synchronises with the legacy stream
  std::deque<Operation> queue;
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> tail;  // dependencies of the next captured node
};

struct Event {
  bool timed = true;
  std::shared_ptr<Point> point;  // position of its last recording, or
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> tail;
};

// Every function of the interface holds this lock.
std::recursive_mutex& lock();

// The stream, or the legacy stream for nullptr; nullptr if there is no such stream.
Stream* find(cudaStream_t stream);
// All streams, the legacy stream first.
const std::vector<Stream*>& streams();
Stream* add_stream(bool blocking);
void remove_stream(Stream* stream);

// Enqueues work on a stream, or adds it to its capture.
cudaError_t enqueue(cudaStream_t stream, Work work);
cudaError_t enqueue_progress(cudaStream_t stream, Begin begin);
// Executes the stream's work up to `point`, or all, and returns whether it got there. If not `patient`, it
// does not wait for other processes.
bool run(Stream& stream, const Point* point = nullptr, bool patient = true);
void run_all();
void set_eager_execution(bool eager);
bool is_eager();

// Executes a graph; unordered nodes are run in the order of `order` (block.h).
Progress replay(std::shared_ptr<const Graph> graph);

// ---- Captures

// Error of a call that is forbidden during capture, or cudaSuccess. Invalidates the affected captures.
cudaError_t unsafe_call();
// For a call that waits for `stream` or queries it.
cudaError_t check_not_captured(Stream& stream);
// For a call that synchronises with all blocking streams.
cudaError_t check_legacy();
void invalidate(Capture& capture);

}  // namespace cuda_emulator
