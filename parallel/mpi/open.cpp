#include "parallel/mpi/open.h"

#include "core/error.h"

#ifdef TANDEM_MPI
#include "parallel/mpi/communicator.h"
#endif

namespace tandem::parallel {

std::string why_no_mpi() {
#ifdef TANDEM_MPI
  return opened_mpi().why_none;
#else
  return "this build of Tandem has no MPI: there was no mpi.h of Open MPI when it was compiled (Debian: "
         "libopenmpi-dev)";
#endif
}

std::unique_ptr<Communicator> open_mpi([[maybe_unused]] const Launch& launch,
                                       [[maybe_unused]] const CommunicatorOptions& options) {
  constexpr std::size_t kLargestPiece = std::size_t{1} << 30, kSmallestPiece = 64;
  require(options.piece_bytes >= kSmallestPiece && options.piece_bytes <= kLargestPiece, "piece_bytes",
          "is {}, expected {} to {}", options.piece_bytes, kSmallestPiece, kLargestPiece);
  const std::string why_none = why_no_mpi();
  if (!why_none.empty())
    throw VendorError(
        "mpi", fmt::format("mpirun started {} ranks, which cannot be connected: {}", launch.size, why_none));
#ifdef TANDEM_MPI
  return std::make_unique<MpiCommunicator>(*opened_mpi().library, launch, options);
#else
  return nullptr;
#endif
}

}  // namespace tandem::parallel
