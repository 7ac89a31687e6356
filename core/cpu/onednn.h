// The one door to oneDNN: primitives with everything about them resolved at creation, so that running one
// costs no descriptor, no lookup and no string. Its headers stay in onednn.cpp.
//
// Images are dense channels-last [N,H,W,C], filters dense [O,KH,KW,I/groups]. Where an implementation prefers
// another layout for its weights, `layout` says so and `PackedTensor` keeps a copy in it. A failure of the
// library arrives as VendorError with its status and the shapes. One thread drives the device; primitives are
// not shared among threads, which have twins of them. Each is made for threads() as it then is, and runs in a
// team of that size.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/backend.h"
#include "core/cpu/packed_weights.h"

struct dnnl_memory;
struct dnnl_memory_desc;
struct dnnl_primitive;

namespace tandem::cpu::onednn {

// How elements lie in memory. Interned: equal layouts are one object, which lives as long as the process.
struct Layout {
  dnnl_memory_desc* desc;
  std::size_t bytes;
  std::uint32_t id;
};

class Primitive {
 public:
  static constexpr int kMaxArguments = 4;

  // Takes ownership of `primitive`; `roles` are its arguments in oneDNN's enumeration; `where` begins error
  // messages.
  Primitive(dnnl_primitive* primitive, std::initializer_list<int> roles, std::string where);
  ~Primitive();
  // The same primitive for another thread to run at the same time.
  std::unique_ptr<Primitive> twin() const;
  Primitive(const Primitive&) = delete;
  Primitive& operator=(const Primitive&) = delete;

  // Addresses in the order in which the function that made the primitive names its arguments; the last is
  // what it writes. Returns when done. Throws VendorError where it wrote beyond its scratchpad; where guards
  // are on (core/guard.h), where it wrote beyond any argument or into one that it reads.
  void run(std::span<const void* const> addresses) const;
  void run(std::initializer_list<const void*> addresses) const {
    run(std::span(addresses.begin(), addresses.size()));
  }

  // What the primitive expects to find at an argument; for filters and other weights, whose layouts are few.
  const Layout* layout(int argument) const;
  std::size_t bytes(int argument) const { return bytes_[argument]; }
  // oneDNN's name of the implementation, such as "brgconv:avx512_core_bf16".
  std::string implementation() const;

 private:
  class Copies;
  Primitive(std::shared_ptr<dnnl_primitive> primitive, std::span<const int> roles, int team,
            std::string where);
  void execute(const void* const* addresses) const;
  // Throws for what was overwritten around `block`, the memory of what `what` names.
  void check_guards(const void* block, std::string_view what, std::size_t bytes) const;

  std::shared_ptr<dnnl_primitive> primitive_;
  int team_;
  int count_ = 0;
  int roles_[kMaxArguments] = {};
  dnnl_memory* memories_[kMaxArguments + 1] = {};  // the last one is the scratchpad
  std::size_t bytes_[kMaxArguments + 1] = {};
  std::string where_;
};

// Whether the library multiplies bf16 in hardware, at the level of instructions that it may use
// (core/cpu/level.h, ONEDNN_MAX_CPU_ISA); elsewhere it is not given any.
bool multiplies_bf16();

enum class Pass : std::uint8_t { forward, input_gradient, filter_gradient };

struct Convolution {
  Index batch, height, width, channels;
  Index out_height, out_width, out_channels;
  Index kernel_height, kernel_width;
  Conv2dOptions options;
  DType dtype = DType::f32;   // of both images and, but for its gradient, of the filter: f32 or bf16;
                              // own kernels also f16
  DType result = DType::f32;  // of what the pass writes; filter gradients are f32
  bool bias = false;          // forward only; f32
};

std::string to_string(const Convolution& problem);

// Whether oneDNN's descriptors can say this: the padding at the far side may be short by less than a stride.
bool expressible(const Convolution& problem);

// Arguments: forward [x, filter, y] or [x, filter, bias, y]; input_gradient [dy, filter, dx]; filter_gradient
// [x, dy, dfilter].
//
// `all` takes the library's first choice, even if it is known to write beyond its scratchpad: the control of
// the tests that look for that.
enum class Kernels : std::uint8_t { sound, all };
std::unique_ptr<Primitive> convolution(Pass pass, const Convolution& problem,
                                       Kernels kernels = Kernels::sound);

// The dense filter of a problem as Tandem keeps it, in oneDNN's dimensions of that problem.
const Layout* plain_filter(const Convolution& problem, DType dtype);

// c[B,M,N] = a[B,M,K]·b[B,K,N] (+ bias[N]); a batch stride of 0 repeats the operand.
struct Matmul {
  Index batch, m, n, k;
  bool transpose_a = false, transpose_b = false;  // stored [K,M], [N,K]
  Index lda, ldb, ldc;                            // distance of stored rows
  Index stride_a, stride_b;                       // from batch to batch
  DType dtype = DType::f32, result = DType::f32;
  bool bias = false;  // f32
  bool accumulate = false;
  bool packed_b = false;  // b in the layout the implementation prefers
};

std::string to_string(const Matmul& problem);

// Arguments: [a, b, c] or [a, b, bias, c].
std::unique_ptr<Primitive> matmul(const Matmul& problem);

// b as the problem stores it.
const Layout* plain_b(const Matmul& problem);

// Arguments: [from, to]. `accumulate` adds to what `to` holds.
std::unique_ptr<Primitive> reorder(const Layout* from, const Layout* to, bool accumulate = false);

// `tensor`, whose elements lie as `plain`, in layout `wanted`.
PackedWeights packed(const Tensor& tensor, const Layout* plain, const Layout* wanted);

}  // namespace tandem::cpu::onednn
