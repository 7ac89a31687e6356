// Tensor: a value type for a dense, row-major range of a storage.
//
// Copies share the storage. There are no strides: a view is another shape over the same elements (`viewed`)
// or a range of the outermost axis (`rows`). Images are [N,H,W,C], filters [O,KH,KW,I], sequences [T,N,C]. A
// default-constructed Tensor is absent (`defined()` is false); ops use it for optional inputs.
#pragma once

#include <cstdint>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/ref.h"
#include "core/shape.h"
#include "core/storage.h"

namespace tandem {

// Destination of a tensor's gradient: output `output` of a tape node (autograd/node.h).
struct GradientEdge {
  Ref<RefCounted> node;
  std::uint32_t output = 0;
};

struct TensorOptions {
  DType dtype = DType::f32;
  Device device = {};
  MemoryKind kind = MemoryKind::activations;
};

class Tensor {
 public:
  Tensor() = default;

  // Uninitialised.
  static Tensor empty(const Shape& shape, TensorOptions options = {});
  static Tensor zeros(const Shape& shape, TensorOptions options = {});
  static Tensor full(const Shape& shape, double value, TensorOptions options = {});
  static Tensor scalar(double value, TensorOptions options = {});
  // Copies host values; their number must match the shape.
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape, Device device = {});
  static Tensor from(std::initializer_list<float> values, const Shape& shape) {
    return from(std::vector<float>(values), shape);
  }
  // A view of `storage` from byte `offset`; throws InternalError if out of bounds.
  static Tensor over(Ref<Storage> storage, std::size_t offset, const Shape& shape, DType dtype);

  bool defined() const { return static_cast<bool>(storage_); }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  Index size(int axis) const { return shape_.at(axis); }
  Index numel() const { return shape_.numel(); }
  DType dtype() const { return dtype_; }
  Device device() const { return storage_->device(); }
  std::size_t bytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype_); }
  TensorOptions options() const { return {dtype_, device()}; }

  void* raw() const { return static_cast<std::byte*>(storage_->data()) + offset_; }
  // Throws InternalError when T is not the dtype. On a CUDA device the pointer is a device pointer.
  template <class T>
  T* data() const {
    if (dtype_of<T>() != dtype_) fail_dtype(dtype_of<T>());
    return static_cast<T*>(raw());
  }

  const Ref<Storage>& storage() const { return storage_; }
  std::size_t offset() const { return offset_; }  // bytes from the start of the storage
  bool shares_storage(const Tensor& other) const { return storage_ && storage_ == other.storage_; }
  // Whether both refer to exactly the same elements.
  bool is_same(const Tensor& other) const {
    return shares_storage(other) && offset_ == other.offset_ && numel() == other.numel();
  }
  std::uint64_t version() const { return storage_->version(); }

  // Untaped views that share the storage and drop the gradient edge; ops are the taped versions.
  Tensor viewed(const Shape& shape) const;      // throws UserError if the element counts differ
  Tensor rows(Index first, Index count) const;  // a range of axis 0
  Tensor detach() const;

  // Copies to host values and converts to T; synchronises.
  template <class T>
  std::vector<T> to_vector() const;
  // The only element; synchronises. Throws UserError unless numel() is 1.
  double item() const;
  // A copy on `device`; the tensor itself if already there.
  Tensor to(Device device) const;
  // An untaped copy of the elements in new memory.
  Tensor clone(MemoryKind kind = MemoryKind::activations) const;

  const GradientEdge& edge() const { return edge_; }
  void set_edge(GradientEdge edge) { edge_ = std::move(edge); }
  // Whether a tape node or a leaf needs this tensor's gradient.
  bool requires_grad() const { return static_cast<bool>(edge_.node); }

 private:
  [[noreturn]] void fail_dtype(DType asked) const;
  void require_defined(const char* where) const;  // throws UserError for an absent tensor

  Ref<Storage> storage_;
  std::size_t offset_ = 0;
  Shape shape_;
  DType dtype_ = DType::f32;
  GradientEdge edge_;
};

using TensorList = std::vector<Tensor>;

// "f32[8,28,28,3]", "absent"
std::string to_string(const Tensor& tensor);

}  // namespace tandem
