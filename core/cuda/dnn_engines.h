// The library behind dnn.h, as the choice among its plans (dnn_plan.cpp) sees it: what it offers for a
// problem, and one of its plans that is ready to run. cuDNN in dnn.cpp; tests have a stand-in.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/cuda/dnn.h"

namespace tandem::cuda::dnn {

// Nothing, or where and why it failed.
struct Failure {
  std::string call, text;
};
using Outcome = std::optional<Failure>;

// Throws the VendorError that names the problem and ways out.
[[noreturn]] void fail(Pass pass, const Convolution& problem, const Rules& rules, std::string_view call,
                       std::string_view text);

// A plan that is ready to run.
class Engine {
 public:
  virtual ~Engine() = default;
  // Puts it on the backend's stream. `room` has `workspace` bytes, on a multiple of 256.
  virtual Outcome run(const Addresses& addresses, void* room) const = 0;

  std::string name;
  std::int64_t workspace = 0;  // bytes
};

// What the library has for one problem under some rules.
class Offer {
 public:
  virtual ~Offer() = default;

  struct Listed {
    std::string name;
    bool compiled = false;  // for the shape, when it is built: that takes a second
  };
  std::vector<Listed> listed;  // as the library's heuristics put them, best first

  // Builds what is listed at `index`. Threads may do so at once, each as another `thread`; the one that
  // drives the backend is 0.
  virtual Outcome build(std::int64_t index, int thread, std::unique_ptr<Engine>& engine) = 0;
};

class Engines {
 public:
  explicit Engines(CudaBackend& backend);
  ~Engines();
  Engines(const Engines&) = delete;
  Engines& operator=(const Engines&) = delete;

  // Asks the heuristics; an offer may turn out to be empty.
  Outcome ask(Pass pass, const Convolution& problem, const Rules& rules, std::unique_ptr<Offer>& offer);

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace tandem::cuda::dnn
