// Detection of mpirun, and behaviour without MPI.
#include "parallel/launch.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>

#include "core/error.h"
#include "parallel/mpi/open.h"

using namespace tandem;
using namespace tandem::parallel;
using Catch::Matchers::Contains;

namespace {

using Variables = std::map<std::string, std::string>;

// Environment variables for its life; what is not named is absent.
class Environment {
 public:
  explicit Environment(const Variables& set) {
    for (const char* name : kNames) {
      if (const char* value = std::getenv(name)) before_[name] = value;
      ::unsetenv(name);
    }
    for (const auto& [name, value] : set) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const char* name : kNames) ::unsetenv(name);
    for (const auto& [name, value] : before_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  static constexpr const char* kNames[] = {"OMPI_COMM_WORLD_SIZE",       "OMPI_COMM_WORLD_RANK",
                                           "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                                           "PMIX_SERVER_TMPDIR",         "TANDEM_MPI_LIBRARY"};
  Variables before_;
};

}  // namespace

TEST_CASE("a process without mpirun is a single rank", "[parallel]") {
  const Environment environment(Variables{});
  CHECK_FALSE(launch_from_environment());
  CHECK(open_communicator()->description() == "one process");
}

TEST_CASE("mpirun says who one is", "[parallel]") {
  const Environment environment(Variables{{"OMPI_COMM_WORLD_SIZE", "8"},
                                          {"OMPI_COMM_WORLD_RANK", "5"},
                                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                          {"PMIX_SERVER_TMPDIR", "/tmp/ompi.host.0/pid.1"}});
  const std::optional<Launch> launch = launch_from_environment();
  REQUIRE(launch);
  CHECK(launch->size == 8);
  CHECK(launch->rank == 5);
  CHECK(launch->local_size == 4);
  CHECK(launch->local_rank == 1);
  CHECK(launch->session_folder == "/tmp/ompi.host.0/pid.1");
}

TEST_CASE("a single rank opens no MPI", "[parallel]") {
  const Environment environment(Variables{{"OMPI_COMM_WORLD_SIZE", "1"},
                                          {"OMPI_COMM_WORLD_RANK", "0"},
                                          {"TANDEM_MPI_LIBRARY", "/nowhere/libmpi.so"}});
  CHECK(open_communicator()->size() == 1);
}

TEST_CASE("invalid variables of mpirun are refused", "[parallel]") {
  for (const auto& [size, rank] : {std::pair("0", "0"), std::pair("two", "0"), std::pair("2", "2"),
                                   std::pair("2", "-1"), std::pair("2", ""), std::pair("99999999999", "0")}) {
    const Environment environment(Variables{{"OMPI_COMM_WORLD_SIZE", size}, {"OMPI_COMM_WORLD_RANK", rank}});
    CHECK_THROWS_AS(launch_from_environment(), UserError);
  }
  const Environment environment(Variables{{"OMPI_COMM_WORLD_SIZE", "2"}});
  CHECK_THROWS_WITH(launch_from_environment(), Contains("mpirun sets both"));
  CHECK_THROWS_WITH(open_communicator({.deadline_s = 0}), Contains("positive"));
}

TEST_CASE("several ranks without MPI are told why", "[parallel]") {
  const Environment environment(Variables{{"OMPI_COMM_WORLD_SIZE", "2"},
                                          {"OMPI_COMM_WORLD_RANK", "0"},
                                          {"TANDEM_MPI_LIBRARY", "/nowhere/libmpi.so"}});
  CHECK_THROWS_AS(open_communicator(), VendorError);
  CHECK_THROWS_WITH(open_communicator(), Contains("mpirun started 2 ranks, which cannot be connected: "));
  CHECK_THROWS_AS(open_communicator({.piece_bytes = 0}), UserError);
}
