// An outside witness of the traffic counters: preloaded (LD_PRELOAD) into every rank, it counts the
// payload of MPI_Isend and MPI_Send calls below the program, and writes "RANK BYTES MESSAGES" to
// $NQD_PMPI_WITNESS.RANK at MPI_Finalize. Group construction uses MPI's collectives, which do not
// pass here, so the counts are those of the data alone.
#include <mpi.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

std::atomic<unsigned long long> g_bytes{0};
std::atomic<unsigned long long> g_messages{0};

void count(int elements, MPI_Datatype type) {
  MPI_Count size = 0;
  PMPI_Type_size_x(type, &size);
  g_bytes += static_cast<unsigned long long>(size) * static_cast<unsigned>(elements);
  ++g_messages;
}

}  // namespace

extern "C" int MPI_Isend(const void* data, int elements, MPI_Datatype type, int to, int tag,
                         MPI_Comm communicator, MPI_Request* request) {
  count(elements, type);
  return PMPI_Isend(data, elements, type, to, tag, communicator, request);
}

extern "C" int MPI_Send(const void* data, int elements, MPI_Datatype type, int to, int tag,
                        MPI_Comm communicator) {
  count(elements, type);
  return PMPI_Send(data, elements, type, to, tag, communicator);
}

extern "C" int MPI_Finalize() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const char* path = std::getenv("NQD_PMPI_WITNESS");
  std::FILE* file = path == nullptr
                        ? nullptr
                        : std::fopen((std::string(path) + "." + std::to_string(rank)).c_str(), "w");
  if (file != nullptr) {
    std::fprintf(file, "%d %llu %llu\n", rank, g_bytes.load(), g_messages.load());
    std::fclose(file);
  }
  return PMPI_Finalize();
}
