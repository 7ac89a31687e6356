// Interface to oneDNN, whose headers are included only in onednn.cpp. Primitives resolve everything at
// creation, so that running one needs no descriptor, lookup or string.
//
// Images are dense channels-last [N,H,W,C], filters dense [O,KH,KW,I/groups]. `layout` gives the layout that
// an implementation prefers for its weights; `PackedWeights` keeps a copy in it. Errors of oneDNN become
// VendorError with its status and the shapes. Everything runs on the calling thread. Threads do not share
// primitives but use twins.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/cpu/packed_weights.h"
#include "core/op_options.h"

struct dnnl_memory;
struct dnnl_memory_desc;
struct dnnl_primitive;

namespace tandem::cpu::onednn {

// Memory layout of elements. Interned: equal layouts are one object that lives as long as the process.
struct Layout {
  dnnl_memory_desc* desc;
  std::size_t bytes;
  std::uint32_t id;
};

class Primitive {
 public:
  static constexpr int kMaxArguments = 4;

  // Owns `primitive`; `roles` are oneDNN's names of its arguments; `where` prefixes error messages.
  Primitive(dnnl_primitive* primitive, std::initializer_list<int> roles, std::string where);
  ~Primitive();
  // A copy that another thread can run concurrently.
  std::unique_ptr<Primitive> twin() const;
  Primitive(const Primitive&) = delete;
  Primitive& operator=(const Primitive&) = delete;

  // Addresses in the order of the creating function's arguments; the last one is the output. Synchronous.
  // Throws VendorError if the primitive wrote beyond its scratchpad or, with guards on (core/guard.h), beyond
  // an argument or into an input.
  void run(std::span<const void* const> addresses) const;
  void run(std::initializer_list<const void*> addresses) const {
    run(std::span(addresses.begin(), addresses.size()));
  }

  // Expected layout of an argument that holds weights.
  const Layout* layout(int argument) const;
  std::size_t bytes(int argument) const { return bytes_[argument]; }
  // oneDNN's name of the implementation, e.g. "brgconv:avx512_core_bf16".
  std::string implementation() const;

 private:
  class Copies;
  Primitive(std::shared_ptr<dnnl_primitive> primitive, std::span<const int> roles, std::string where);
  void execute(const void* const* addresses) const;
  // Throws if guards around `block` were overwritten; `what` names the block in the message.
  void check_guards(const void* block, std::string_view what, std::size_t bytes) const;

  std::shared_ptr<dnnl_primitive> primitive_;
  int count_ = 0;
  int roles_[kMaxArguments] = {};
  dnnl_memory* memories_[kMaxArguments + 1] = {};  // last: the scratchpad
  std::size_t bytes_[kMaxArguments + 1] = {};
  std::string where_;
};

// Whether oneDNN's instruction level (core/cpu/level.h, ONEDNN_MAX_CPU_ISA) multiplies bf16 in hardware.
bool multiplies_bf16();

enum class Pass : std::uint8_t { forward, input_gradient, filter_gradient };

struct Convolution {
  Index batch, height, width, channels;
  Index out_height, out_width, out_channels;
  Index kernel_height, kernel_width;
  Conv2dOptions options;
  DType dtype = DType::f32;   // of images and filters (except filter gradients): f32 or bf16;
                              // also f16 for own kernels
  DType result = DType::f32;  // f32 for filter gradients
  bool bias = false;          // forward only; f32
};

std::string to_string(const Convolution& problem);

// Whether oneDNN can express the problem. The padding at the far side may be short by less than a stride.
bool expressible(const Convolution& problem);

// Arguments: forward [x, filter, y] or [x, filter, bias, y]; input_gradient [dy, filter, dx]; filter_gradient
// [x, dy, dfilter].
//
// `all` also accepts implementations known to write beyond their scratchpad, as a negative control for tests.
enum class Kernels : std::uint8_t { sound, all };
std::unique_ptr<Primitive> convolution(Pass pass, const Convolution& problem,
                                       Kernels kernels = Kernels::sound);

// Tandem's dense filter layout in oneDNN's dimensions.
const Layout* plain_filter(const Convolution& problem, DType dtype);

// c[B,M,N] = a[B,M,K]·b[B,K,N] (+ bias[N]); a batch stride of 0 repeats the operand.
struct Matmul {
  Index batch, m, n, k;
  bool transpose_a = false, transpose_b = false;  // stored [K,M], [N,K]
  Index lda, ldb, ldc;                            // distance between stored rows
  Index stride_a, stride_b;                       // distance between batch entries
  DType dtype = DType::f32, result = DType::f32;
  bool bias = false;  // f32
  bool accumulate = false;
  bool packed_b = false;  // b has the layout that the implementation prefers
};

std::string to_string(const Matmul& problem);

// Arguments: [a, b, c] or [a, b, bias, c].
std::unique_ptr<Primitive> matmul(const Matmul& problem);

// c = a·b, or += if `accumulate`, without bias, for one f32 problem by oneDNN's gemm, which packs both
// operands.
void gemm(const Matmul& problem, const float* a, const float* b, float* c);

// Layout of b in the problem.
const Layout* plain_b(const Matmul& problem);

// Arguments: [from, to]. `accumulate` adds to what `to` holds.
std::unique_ptr<Primitive> reorder(const Layout* from, const Layout* to, bool accumulate = false);

// `tensor` with layout `plain`, converted to layout `wanted`.
PackedWeights packed(const Tensor& tensor, const Layout* plain, const Layout* wanted);

}  // namespace tandem::cpu::onednn
