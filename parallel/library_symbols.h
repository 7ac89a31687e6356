// Symbols of libraries opened at run time.
#pragma once

#include <dlfcn.h>

#include <string>

namespace tandem::parallel {

// Loads symbols of the library, and remembers the first missing one.
class LibrarySymbols {
 public:
  explicit LibrarySymbols(void* handle) : handle_(handle) {}

  // Converts to the type of the variable that it initialises.
  struct Symbol {
    void* address;
    template <class T>
    operator T() const {  // NOLINT(google-explicit-constructor)
      return reinterpret_cast<T>(address);
    }
  };
  Symbol operator[](const char* name) {
    void* const address = dlsym(handle_, name);
    if (!address && missing_.empty()) missing_ = name;
    return {address};
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
