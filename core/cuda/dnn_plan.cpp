// Choice of a convolution's plan, and the backend's plan cache. Uses the library only through dnn_engines.h.
#include <algorithm>
#include <bit>
#include <chrono>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/cuda/blas.h"
#include "core/cuda/capture.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/dnn_engines.h"
#include "core/cuda/launch.h"
#include "core/cuda/search.h"
#include "core/error.h"

namespace tandem::cuda::dnn {

// Cache key of a plan.
struct ProblemKey {
  Pass pass;
  Convolution problem;
  Rules rules;
  friend bool operator==(const ProblemKey&, const ProblemKey&) = default;
};

struct HashProblem {
  std::size_t operator()(const ProblemKey& key) const {
    const Convolution& p = key.problem;
    const Conv2dOptions& o = p.options;
    std::uint64_t hash = 0x9e3779b97f4a7c15u;
    for (const std::int64_t word : {p.batch,
                                    p.height,
                                    p.width,
                                    p.channels,
                                    p.out_height,
                                    p.out_width,
                                    p.out_channels,
                                    p.kernel_height,
                                    p.kernel_width,
                                    o.stride[0],
                                    o.stride[1],
                                    o.padding[0],
                                    o.padding[1],
                                    o.dilation[0],
                                    o.dilation[1],
                                    o.groups,
                                    static_cast<Index>(key.pass),
                                    static_cast<Index>(p.dtype),
                                    static_cast<Index>(p.result),
                                    Index{p.bias},
                                    Index{p.sums},
                                    Index{p.add},
                                    Index{key.rules.deterministic},
                                    Index{key.rules.allow_tf32},
                                    Index{key.rules.tune},
                                    static_cast<Index>(std::bit_cast<std::uint32_t>(key.rules.wide_cost))}) {
      hash ^= static_cast<std::uint64_t>(word);
      hash *= 0xff51afd7ed558ccdu;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

// ---- State of a backend

struct Library::State {
  explicit State(CudaBackend& owner) : backend(owner), engines(owner) {}

  CudaBackend& backend;
  Engines engines;
  // nullptr: a fused plan that is not to be used.
  std::unordered_map<ProblemKey, std::unique_ptr<Plan>, HashProblem> plans;
  int trying = 0;  // number of plans being tried out; none may be evicted

  // The algorithm table's entry for a problem, or "".
  std::string chosen(const std::string& problem) const {
    const auto& choices = backend.algorithm_table().choices;
    const auto it = choices.find(problem);
    return it == choices.end() ? std::string() : it->second.name;
  }
  // Adds a plan. A full cache is cleared, so that non-repeating shapes do not exhaust memory.
  Plan* keep(const ProblemKey& key, std::unique_ptr<Plan> plan);
};

namespace {

bool is_fused(const Convolution& p) { return p.sums || p.add; }

// Algorithm table entries for a fused problem whose rival won, and for a problem computed by cuBLASLt.
constexpr std::string_view kSeparately = "separately", kProduct = "cuBLASLt";

// Name of a plan in the algorithm table, with a prefix for the variant of the problem.
std::string choice_text(const Convolution& carried, std::string_view name) {
  return fmt::format("{}{}{}{}: {}", tandem::name_of(carried.result), carried.bias ? " with bias" : "",
                     carried.sums ? " with sums" : "", carried.add ? " with addend" : "", name);
}

// Bytes of operands and results.
std::int64_t bytes_of_convolution(const Convolution& p) {
  const Index x = p.batch * p.height * p.width * p.channels;
  const Index y = p.batch * p.out_height * p.out_width * p.out_channels;
  const Index filter = p.out_channels * p.kernel_height * p.kernel_width * (p.channels / p.options.groups);
  return static_cast<std::int64_t>(size_of(p.dtype)) * (x + y + filter);
}

// Marks a plan as being tried out, in this scope.
class Trying {
 public:
  explicit Trying(Library::State& library) : library_(library) { ++library_.trying; }
  ~Trying() { --library_.trying; }
  Trying(const Trying&) = delete;
  Trying& operator=(const Trying&) = delete;

 private:
  Library::State& library_;
};

Outcome execute(const Engine& engine, const Library::State& library, const Addresses& addresses) {
  constexpr std::size_t kWorkspaceAlignment = 256;
  // Freed before the kernels run, which is safe, because blocks are reused in stream order.
  Tensor workspace;
  void* room = nullptr;
  if (engine.workspace > 0) {
    workspace =
        library.backend.workspace({engine.workspace + static_cast<Index>(kWorkspaceAlignment)}, DType::u8);
    const auto address = reinterpret_cast<std::uintptr_t>(workspace.raw());
    room = reinterpret_cast<void*>((address + kWorkspaceAlignment - 1) / kWorkspaceAlignment *
                                   kWorkspaceAlignment);
  }
  return engine.run(addresses, room);
}

// Computes a convolution that is a product by cuBLASLt; false if there is no algorithm.
bool multiply(CudaBackend& backend, Pass pass, const Convolution& p, const Addresses& at) {
  const bool forward = pass == Pass::forward;
  const Product product{.m = p.batch * p.height * p.width,
                        .n = forward ? p.out_channels : p.channels,
                        .k = forward ? p.channels : p.out_channels,
                        .transpose_b = forward,  // filters are [O,C]
                        .in = p.dtype,
                        .out = p.result,
                        .bias = p.bias};
  return backend.blas().multiply(product, at[0], at[1], at[2], const_cast<void*>(at[3]));
}

}  // namespace

// ---- Plans

class Plan::Impl {
 public:
  Impl(Library::State& library, ProblemKey key, Convolution carried)
      : library_(library), key_(std::move(key)), carried_(std::move(carried)) {}

  // Uses the algorithm table's entry, or else the first plan that builds.
  Outcome build() {
    const std::string known = library_.chosen(text());
    if (is_product(key_.pass, carried_) && known == choice_text(carried_, kProduct)) {
      by_product_ = tuned_ = true;
      return {};
    }
    if (auto bad = library_.engines.ask(key_.pass, carried_, key_.rules, offer_)) return bad;
    const auto& listed = offer_->listed;
    const auto named =
        std::ranges::find(listed, known, [&](const auto& each) { return choice_text(carried_, each.name); });
    if (named != listed.end() && !build_at(named - listed.begin())) {
      tuned_ = true;
      offer_.reset();
      return {};
    }
    Outcome last = Failure{"create_execution_plans", "the rules allow no plan"};
    for (std::int64_t i = 0; i < std::ssize(listed); ++i) {
      last = build_at(i);
      if (last) continue;
      tuned_ = !is_fused(carried_) && (key_.rules.deterministic || !key_.rules.tune);
      if (tuned_) offer_.reset();
      return {};
    }
    return last;
  }

  void run(const Addresses& addresses, const Widened& widened) {
    if (!tuned_ && !is_fused(carried_) && !is_captured(library_.backend.stream())) [[unlikely]] {
      const Trying trying(library_);
      tune(addresses, widened);
    }
    execute_chosen(addresses);
  }

  // See Library::try_out; nullopt if the data proved nothing.
  std::optional<bool> try_out(const Addresses& addresses, const Rival& rival) {
    const auto confirmed = [&] {
      execute_chosen(addresses);
      return rival.confirms([&](const Addresses& elsewhere) { execute_chosen(elsewhere); });
    };
    if (const auto right = confirmed(); !right.value_or(false)) return right;
    choose(addresses);
    if (const auto right = confirmed(); !right.value_or(false)) return right;
    const auto apart = stopwatch().time([&] {
      rival.run();
      return true;
    });
    add_time("fused", milliseconds_);
    add_time("separately", apart);
    tuned_ = milliseconds_ && (!apart || *milliseconds_ < *apart);
    offer_.reset();
    return tuned_;
  }
  // Stores the choice in the algorithm table.
  void note(std::string_view choice) {
    library_.backend.algorithm_table().choices[text()] = {.name = std::string(choice),
                                                          .milliseconds = times_};
  }
  std::string choice() const { return choice_text(carried_, name()); }

  const Convolution& carried() const { return carried_; }
  std::string name() const { return by_product_ ? std::string(kProduct) : chosen_->name; }
  std::int64_t workspace() const { return by_product_ ? 0 : chosen_->workspace; }
  bool tuned() const { return tuned_; }
  // The plan that replaces this one, or nullptr.
  std::unique_ptr<Impl>& successor() { return successor_; }

 private:
  static constexpr std::size_t kCandidates = 12;
  // Time limit per problem for starting to build candidates. Compiling an engine for a shape takes a second
  // or more, and ResNet-50 has a hundred problems.
  static constexpr std::chrono::milliseconds kBuildingPatience{300};
  // Least relative cost of a filter gradient of widened operands: twice the bytes, half the arithmetic rate.
  static constexpr float kWidenedCost = 1.5f;

  std::string text() const { return key_text(key_.pass, key_.problem, key_.rules); }
  Stopwatch stopwatch() const { return {library_.backend, bytes_of_convolution(carried_)}; }

  void add_time(std::string_view name, std::optional<float> milliseconds) {
    if (milliseconds) times_.emplace_back(name, *milliseconds);
  }

  Outcome build_at(std::int64_t index) {
    auto bad = offer_->build(index, 0, chosen_);
    if (!bad) index_ = index;
    return bad;
  }

  void execute_chosen(const Addresses& addresses) {
    if (by_product_) {
      if (multiply(library_.backend, key_.pass, carried_, addresses)) return;
      fail(key_.pass, carried_, key_.rules, "cublasLtMatmul",
           "cuBLASLt has no algorithm for the chosen product");
    }
    if (auto bad = execute(*chosen_, library_, addresses))
      fail(key_.pass, carried_, key_.rules, fmt::format("{} of plan {}", bad->call, chosen_->name),
           bad->text);
  }

  // The other candidates, precompiled ones first.
  std::vector<std::int64_t> order_of_others() const {
    std::vector<std::int64_t> order;
    for (const bool compiled : {false, true}) {
      for (std::int64_t i = 0; i < std::ssize(offer_->listed); ++i) {
        if (i != index_ && offer_->listed[static_cast<std::size_t>(i)].compiled == compiled)
          order.push_back(i);
      }
    }
    return order;
  }

  // Keeps the fastest of the plans that can be built in time, or the product.
  void choose(const Addresses& addresses) {
    auto others = built_at_once<Engine>(order_of_others(), kCandidates - 1, kBuildingPatience,
                                        building_threads(), [&](std::int64_t index, int thread) {
                                          std::unique_ptr<Engine> engine;
                                          offer_->build(index, thread, engine);
                                          return engine;
                                        });
    times_.clear();
    Stopwatch watch = stopwatch();
    const auto time = [&](const Engine& engine) {
      return watch.time([&] { return !execute(engine, library_, addresses); }, milliseconds_);
    };
    milliseconds_ = time(*chosen_);
    add_time("first", milliseconds_);
    const auto start = std::chrono::steady_clock::now();
    for (std::unique_ptr<Engine>& other : others) {
      if (std::chrono::steady_clock::now() - start > kTimingPatience) break;
      const auto found = time(*other);
      if (!found || (milliseconds_ && *milliseconds_ <= *found)) continue;
      milliseconds_ = found;
      std::swap(chosen_, other);
    }
    if (is_product(key_.pass, carried_)) try_product(watch, addresses);
  }

  void try_product(Stopwatch& watch, const Addresses& addresses) {
    const auto product = [&] { return multiply(library_.backend, key_.pass, carried_, addresses); };
    add_time("cuDNN", milliseconds_);
    if (!watch.time(product)) return;  // chooses cuBLASLt's algorithm before timing starts
    const auto found = watch.time(product, milliseconds_);
    add_time(kProduct, found);
    if (!found || (milliseconds_ && *milliseconds_ <= *found)) return;
    milliseconds_ = found;
    by_product_ = true;
  }

  void tune(const Addresses& addresses, const Widened& widened) {
    choose(addresses);
    tuned_ = true;
    offer_.reset();
    if (carried_.result != carried_.dtype && find_successor(addresses, widened)) return;
    if (times_.size() == 1) add_time("chosen", milliseconds_);
    if (milliseconds_) note(choice());
  }

  // Whether the rules prefer a 16-bit result to f32; the caller then widens the operands instead.
  bool find_successor(Addresses addresses, const Widened& widened) {
    Convolution narrow = carried_;
    narrow.result = narrow.dtype;
    narrow.bias = false;
    auto other = std::make_unique<Impl>(library_, key_, narrow);
    if (other->build()) return false;
    addresses[2] = nullptr;
    if (!other->tuned_)
      other->choose(addresses);  // its smaller result fits into the memory of the f32 result
    other->tuned_ = true;
    other->offer_.reset();
    add_time("f32", milliseconds_);
    add_time("rounded", other->milliseconds_);
    if (!other->milliseconds_ || !costs_too_much(*other->milliseconds_, widened)) return false;
    other->times_ = std::move(times_);
    other->note(other->choice());
    successor_ = std::move(other);
    return true;
  }

  // Whether writing f32 is too slow compared with rounding or with widening the operands.
  bool costs_too_much(float rounded, const Widened& widened) {
    if (!milliseconds_) return true;
    if (key_.pass == Pass::filter_gradient && widened) {
      if (*milliseconds_ <= kWidenedCost * rounded) return false;
      const auto run = [&] {
        widened();
        return true;
      };
      if (stopwatch().time(run)) {  // chooses its own plan before timing starts
        const auto found = stopwatch().time(run);
        add_time("widened", found);
        if (found) return *found < *milliseconds_;
      }
    }
    return *milliseconds_ > key_.rules.wide_cost * rounded;
  }

  Library::State& library_;
  ProblemKey key_;
  Convolution carried_;
  std::unique_ptr<Offer> offer_;  // until the choice is final
  std::unique_ptr<Engine> chosen_;
  std::int64_t index_ = -1;  // index of the first plan that was built
  bool by_product_ = false;  // replaces `chosen_`, which may then be null
  bool tuned_ = false;
  std::optional<float> milliseconds_;  // time of one run of the chosen plan, if measured
  std::vector<std::pair<std::string, float>> times_;
  std::unique_ptr<Impl> successor_;
};

Plan::Plan(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Plan::~Plan() = default;
const Convolution& Plan::carried() const { return impl_->carried(); }
std::string Plan::name() const { return impl_->name(); }
bool Plan::tuned() const { return impl_->tuned(); }
std::size_t Plan::workspace_bytes() const { return static_cast<std::size_t>(impl_->workspace()); }
void Plan::run(const Addresses& addresses, const Widened& widened) { impl_->run(addresses, widened); }

// ---- Plans of a backend

Library::Library(CudaBackend& backend) : state_(std::make_unique<State>(backend)) {}
Library::~Library() = default;
std::shared_ptr<cudnnContext> Library::handle() { return state_->engines.handle(); }

namespace {

// Synchronises, so that plans may be freed; returns false if the stream is being captured.
bool are_done(cudaStream_t stream) {
  if (is_captured(stream)) return false;
  tandem::cuda::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return true;
}

}  // namespace

Plan* Library::State::keep(const ProblemKey& key, std::unique_ptr<Plan> plan) {
  constexpr std::size_t kCapacity = 1024;
  if (plans.size() >= kCapacity && trying == 0 && are_done(backend.stream())) plans.clear();
  return plans.insert_or_assign(key, std::move(plan)).first->second.get();
}

Plan& Library::plan(Pass pass, const Convolution& problem) {
  State& library = *state_;
  const cudaStream_t stream = library.backend.stream();
  const ProblemKey key{pass, problem, library.backend.rules()};
  if (const auto it = library.plans.find(key); it != library.plans.end()) {
    if (auto& successor = it->second->impl_->successor(); successor && are_done(stream)) [[unlikely]]
      it->second = std::make_unique<Plan>(std::move(successor));
    return *it->second;
  }
  const RelaxedCapture relaxed;
  std::vector<Convolution> carried = alternatives(pass, problem, key.rules);
  if (const std::string known = library.chosen(key_text(pass, problem, key.rules)); !known.empty()) {
    std::stable_partition(carried.begin(), carried.end(),
                          [&](const Convolution& p) { return known.starts_with(choice_text(p, {})); });
  }
  Failure last;
  for (const Convolution& p : carried) {
    auto impl = std::make_unique<Plan::Impl>(library, key, p);
    if (auto bad = impl->build()) {
      last = std::move(*bad);
      continue;
    }
    return *library.keep(key, std::make_unique<Plan>(std::move(impl)));
  }
  fail(pass, problem, key.rules, last.call, last.text);
}

Plan* Library::fused_plan(Pass pass, const Convolution& problem) {
  State& library = *state_;
  const ProblemKey key{pass, problem, library.backend.rules()};
  if (const auto it = library.plans.find(key); it != library.plans.end()) return it->second.get();
  const RelaxedCapture relaxed;
  auto impl = std::make_unique<Plan::Impl>(library, key, problem);
  if (library.chosen(key_text(pass, problem, key.rules)) == kSeparately || impl->build())
    return library.keep(key, nullptr);
  return library.keep(key, std::make_unique<Plan>(std::move(impl)));
}

bool Library::try_out(Plan& plan, const Addresses& addresses, const Rival& rival) {
  std::optional<bool> better;
  const Trying trying(*state_);
  try {
    better = plan.impl_->try_out(addresses, rival);
    if (better) plan.impl_->note(*better ? plan.impl_->choice() : std::string(kSeparately));
  } catch (const VendorError&) {  // e.g. out of memory, which says nothing about later runs
    better = false;
  }
  if (better == false) dismiss(plan);
  return better.value_or(false);
}

void Library::dismiss(Plan& plan) {
  for (auto& [key, kept] : state_->plans) {
    if (kept.get() == &plan && are_done(state_->backend.stream())) return kept.reset();
  }
}

}  // namespace tandem::cuda::dnn
