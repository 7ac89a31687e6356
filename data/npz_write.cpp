// .npy and .npz files: version 1.0 headers, members uncompressed and with a fixed time, so that equal arrays
// give equal bytes.
#include <archive.h>
#include <archive_entry.h>

#include <memory>

#include "core/error.h"
#include "data/npy.h"

namespace tandem::datasets {

namespace {

// The shape as a Python tuple: "()", "(3,)", "(3, 4)".
std::string tuple_of(const Shape& shape) {
  std::string text = "(";
  for (int axis = 0; axis < shape.rank(); ++axis)
    text += fmt::format("{}{}", axis > 0 ? ", " : "", shape[axis]);
  return text + (shape.rank() == 1 ? ",)" : ")");
}

const char* descr_of(const Tensor& array) {
  switch (array.dtype()) {
    case DType::f32:
      return "<f4";
    case DType::i64:
      return "<i8";
    case DType::u8:
      return "|u1";
    default:
      throw UserError("npy", fmt::format("expected an array of f32, i64 or u8, got {}", to_string(array)));
  }
}

// Padded to a multiple of 64 bytes, as the format requires.
std::string npy_header(const Tensor& array) {
  const std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}",
                                       descr_of(array), tuple_of(array.shape()));
  const std::size_t total = (10 + text.size() + 1 + 63) / 64 * 64, length = total - 10;
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(length & 0xFF);
  header += static_cast<char>(length >> 8);
  header += text;
  header.append(total - header.size() - 1, ' ');
  return header + '\n';
}

struct FreeArchive {
  void operator()(archive* handle) const { archive_write_free(handle); }
};
struct FreeEntry {
  void operator()(archive_entry* entry) const { archive_entry_free(entry); }
};

la_ssize_t append(archive*, void* to, const void* bytes, std::size_t count) {
  static_cast<std::string*>(to)->append(static_cast<const char*>(bytes), count);
  return static_cast<la_ssize_t>(count);
}

void check(archive* handle, bool good) {
  const char* message = archive_error_string(handle);
  if (!good) throw VendorError("npz", fmt::format("libarchive: {}", message ? message : "unknown error"));
}

void add_member(archive* handle, const NamedArray& named) {
  const Tensor array = named.array.to(Device{});
  const std::string header = npy_header(array);
  const std::unique_ptr<archive_entry, FreeEntry> entry(archive_entry_new());
  archive_entry_set_pathname(entry.get(), (named.name + ".npy").c_str());
  archive_entry_set_size(entry.get(), static_cast<la_int64_t>(header.size() + array.bytes()));
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), 0644);
  archive_entry_set_mtime(entry.get(), 315619200, 0);  // 1980-01-02, the first day in every time zone
  check(handle, archive_write_header(handle, entry.get()) == ARCHIVE_OK);
  const auto write = [&](const void* bytes, std::size_t count) {
    check(handle, archive_write_data(handle, bytes, count) == static_cast<la_ssize_t>(count));
  };
  write(header.data(), header.size());
  if (array.bytes() > 0) write(array.raw(), array.bytes());
}

}  // namespace

std::string npz_file(const std::vector<NamedArray>& arrays) {
  std::string file;
  const std::unique_ptr<archive, FreeArchive> handle(archive_write_new());
  ensure(handle != nullptr, "npz", "libarchive returned no writer");
  check(handle.get(), archive_write_set_format_zip(handle.get()) == ARCHIVE_OK);
  check(handle.get(), archive_write_zip_set_compression_store(handle.get()) == ARCHIVE_OK);
  check(handle.get(), archive_write_set_bytes_per_block(handle.get(), 0) == ARCHIVE_OK);
  check(handle.get(), archive_write_open(handle.get(), &file, nullptr, append, nullptr) == ARCHIVE_OK);
  for (const NamedArray& named : arrays) add_member(handle.get(), named);
  check(handle.get(), archive_write_close(handle.get()) == ARCHIVE_OK);
  return file;
}

}  // namespace tandem::datasets
