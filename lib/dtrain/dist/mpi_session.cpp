#include "dtrain/dist/mpi_session.hpp"

#include <ATen/ATen.h>
#define OMPI_SKIP_MPICXX 1  // the C API is all we use; the C++ bindings would ask for another library
#include <mpi.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>

#include "dtrain/base/error.hpp"

namespace dtrain {

// MPI's calls return codes (MPI_ERRORS_RETURN); each is turned into a sentence here.
static void mpi_check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommError(std::string(call) + " failed: " + std::string(text, static_cast<size_t>(length)) +
                  "; a peer or the network was lost");
}

namespace {

// Polls until all requests are done. The first 2,000 looks follow each other at once, as small messages between
// neighbours take microseconds; then the core is left to the other threads of this rank.
void wait_for(std::vector<MPI_Request>& requests) {
  for (int64_t looks = 0;; ++looks) {
    int done = 0;
    mpi_check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
              "MPI_Testall");
    if (done != 0) return;
    if (looks < 2000) continue;
    const timespec pause{0, looks < 20000 ? 20'000 : 200'000};
    nanosleep(&pause, nullptr);
  }
}

class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(MPI_Comm comm) : comm_(comm) {
    mpi_check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    mpi_check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  }
  // The duplicate is not freed: MPI_Comm_free is collective, and a rank that unwinds must not wait for its peers.
  // MPI_Finalize releases it.

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives) override {
    std::vector<at::Tensor> host_copies;
    std::vector<at::Tensor> received;
    requests_.clear();
    for (const Message& message : receives) {
      received.push_back(message.data.is_cpu()
                             ? message.data
                             : at::empty(message.data.sizes(), message.data.options().device(at::kCPU)));
      post(message.peer, received.back(), false);
    }
    for (const Message& message : sends) {
      host_copies.push_back(message.data.cpu());
      post(message.peer, host_copies.back(), true);
    }
    if (!requests_.empty()) wait_for(requests_);
    for (size_t i = 0; i < receives.size(); ++i)
      if (!receives[i].data.is_cpu()) at::Tensor(receives[i].data).copy_(received[i]);
  }

  std::unique_ptr<Communicator> duplicate() override {
    MPI_Comm copy = MPI_COMM_NULL;
    mpi_check(MPI_Comm_dup(comm_, &copy), "MPI_Comm_dup");
    mpi_check(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    return std::make_unique<MpiCommunicator>(copy);
  }

 private:
  void post(int peer, const at::Tensor& tensor, bool send) {
    check(tensor.is_contiguous(), "a tensor that travels is contiguous");
    constexpr int64_t kPiece = int64_t{1} << 30;  // MPI counts in int
    auto* data = static_cast<char*>(tensor.data_ptr());
    for (int64_t left = static_cast<int64_t>(tensor.nbytes()); left > 0; left -= kPiece, data += kPiece) {
      const int count = static_cast<int>(std::min(left, kPiece));
      requests_.push_back(MPI_REQUEST_NULL);
      mpi_check(send ? MPI_Isend(data, count, MPI_BYTE, peer, 0, comm_, &requests_.back())
                     : MPI_Irecv(data, count, MPI_BYTE, peer, 0, comm_, &requests_.back()),
                send ? "MPI_Isend" : "MPI_Irecv");
    }
  }

  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<MPI_Request> requests_;
};

}  // namespace

struct MpiSession::Impl {
  int local_rank = 0;
};

MpiSession::MpiSession() : impl_(std::make_unique<Impl>()) {
  int provided = 0;
  mpi_check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (provided < MPI_THREAD_MULTIPLE)
    throw CommError("this MPI offers no MPI_THREAD_MULTIPLE, which dtrain needs; use an MPI built with threads");
  MPI_Comm host = MPI_COMM_NULL;
  mpi_check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
  MPI_Comm_rank(host, &impl_->local_rank);
  MPI_Comm_free(&host);
}

MpiSession::~MpiSession() = default;

std::unique_ptr<Communicator> MpiSession::world() { return MpiCommunicator(MPI_COMM_WORLD).duplicate(); }
int MpiSession::local_rank() const { return impl_->local_rank; }

std::string MpiSession::library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string whole(text, static_cast<size_t>(length));
  return whole.substr(0, whole.find_first_of(",\n"));
}

void MpiSession::finalize() { mpi_check(MPI_Finalize(), "MPI_Finalize"); }

void MpiSession::abort(int code) {
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

}  // namespace dtrain
