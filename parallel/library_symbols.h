// Symbols of libraries opened at run time.
#pragma once

#include <dlfcn.h>

#include <string>

namespace tandem::parallel {

// Loads symbols of the library, and remembers the first missing one.
class LibrarySymbols {
 public:
  explicit LibrarySymbols(void* handle) : handle_(handle) {}

  template <class T>
  void take(T& target, const char* name) {
    target = reinterpret_cast<T>(dlsym(handle_, name));
    if (!target && missing_.empty()) missing_ = name;
  }
  // "": none
  const std::string& missing() const { return missing_; }

 private:
  void* handle_;
  std::string missing_;
};

// Error of the last failed dlopen or dlsym.
inline std::string library_error() {
  const char* const text = dlerror();
  return text ? text : "unknown error";
}

}  // namespace tandem::parallel
