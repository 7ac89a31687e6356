// Files that are read, and everything else that a path may lead to.
#include "files/input.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "tests/support/errors.h"
#include "tests/support/temporary_files.h"

using namespace tandem;
using namespace tandem::files;
using testing::TemporaryDirectory;
namespace fs = std::filesystem;

namespace {

void make_socket(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  REQUIRE(path.string().size() < sizeof address.sun_path);
  std::strcpy(address.sun_path, path.c_str());
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  ::close(socket);
}

}  // namespace

TEST_CASE("only regular files are opened, anything else is named", "[input]") {
  const TemporaryDirectory directory;
  const fs::path root = directory.path();
  REQUIRE(::mkfifo((root / "fifo").c_str(), 0600) == 0);
  make_socket(root / "socket");
  fs::create_directory(root / "folder");
  fs::create_symlink("nowhere", root / "dangling");
  fs::create_symlink("loop", root / "loop");
  fs::create_symlink("/dev/full", root / "device");
  fs::create_symlink("/proc/self/status", root / "status");
  const std::pair<const char*, const char*> cases[] = {
      {"fifo", "is a FIFO, not a regular file"},     {"socket", "is a socket, not a regular file"},
      {"folder", "is a folder, not a regular file"}, {"device", "is a device, not a regular file"},
      {"dangling", "is a symbolic link to nothing"}, {"loop", "is a loop of symbolic links"},
      {"status", "is made up by the kernel"},        {"none", "there is no such file"},
      {"fifo/below", "there is no such file"}};
  for (const auto& [name, what] : cases) {
    INFO(name);
    const std::string error = testing::user_error_of([&, path = root / name] { InputFile{path}; });
    CHECK(error == fmt::format("[{}] {}", (root / name).string(),
                               std::strcmp(name, "status") == 0
                                   ? "is made up by the kernel as it is read, not "
                                     "a stored file"
                                   : what));
    CHECK(error == testing::user_error_of([&, path = root / name] { read_text(path); }));
  }
  CHECK_FAILS(UserError, InputFile(root / std::string(300, 'x')), "File name too long");
}

TEST_CASE("kinds of what a path leads to", "[input]") {
  const TemporaryDirectory directory;
  const fs::path root = directory.path();
  directory.write("file", "x");
  fs::create_symlink("file", root / "link");
  REQUIRE(::mkfifo((root / "fifo").c_str(), 0600) == 0);
  fs::create_symlink("loop", root / "loop");
  CHECK(kind_of(root) == Kind::folder);
  CHECK(kind_of(root / "file") == Kind::file);
  CHECK(kind_of(root / "link") == Kind::file);
  CHECK(kind_of(root / "fifo") == Kind::special);
  CHECK(kind_of("/dev/null") == Kind::special);
  CHECK(kind_of(root / "none") == Kind::absent);
  CHECK(kind_of(root / "file/below") == Kind::absent);
  CHECK_FAILS(UserError, kind_of(root / "loop"), "loop] is a loop of symbolic links");
  CHECK_FAILS(UserError, kind_of(root / "loop/below"), "is a loop of symbolic links");
}

TEST_CASE("a file is read as it was when it was opened", "[input]") {
  const TemporaryDirectory directory;
  const std::string path = directory.write("file", "0123456789");
  const InputFile file(path);
  directory.write("file", "0123456789 and more");
  CHECK(file.size() == 10);
  char bytes[5] = {};
  file.read(3, bytes, 4);
  CHECK(std::string(bytes) == "3456");
  fs::resize_file(path, 5);
  CHECK_FAILS(UserError, file.read(0, std::string(10, ' ').data(), 10),
              "ends at byte 5, 5 more were expected");
  CHECK(read_text(path) == "01234");
  CHECK(read_text_if_there(path).value_or("") == "01234");
  CHECK_FAILS(UserError, read_text(path, 4), "has 5 bytes, at most 4 are read");
  CHECK_FALSE(read_text_if_there(directory.path() / "none"));
  fs::resize_file(path, std::uintmax_t{1} << 40);  // nothing but a hole
  CHECK_FAILS(UserError, read_text(path), "has 1099511627776 bytes");
}

TEST_CASE("folders are listed in order, anything else is named", "[input]") {
  const TemporaryDirectory directory;
  directory.write("b", "");
  directory.write("a/x", "");
  REQUIRE(::mkfifo((directory.path() / "c").c_str(), 0600) == 0);
  std::string names;
  for (const auto& entry : entries_of(directory.path())) names += entry.path().filename().string();
  CHECK(names == "abc");
  CHECK_FAILS(UserError, entries_of(directory.path() / "b"), "b] is a file, not a folder");
  CHECK_FAILS(UserError, entries_of(directory.path() / "c"), "c] is a FIFO, not a folder");
  CHECK_FAILS(UserError, entries_of(directory.path() / "none"), "none] cannot be opened: No such file");
}

TEST_CASE("lines end with a line break, except perhaps the last", "[input]") {
  const auto lines = [](std::string_view text) {
    std::string found;
    each_line(text, [&](std::string_view line, bool ended) {
      found += fmt::format("{}{}", line, ended ? ";" : "!");
    });
    return found;
  };
  CHECK(lines("") == "");
  CHECK(lines("\n\na\n") == ";;a;");
  CHECK(lines("a\nb") == "a;b!");
}
