#include "dtrain/dist/mpi_session.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#define OMPI_SKIP_MPICXX 1  // only the C API is used; the C++ bindings would need another library
#include <dlfcn.h>
#include <mpi.h>
#include <sys/statvfs.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <new>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/device/late_copy.hpp"
#include "dtrain/dist/host_memory.hpp"
#include "dtrain/dist/message.hpp"
#include "dtrain/dist/network_addresses.hpp"

namespace dtrain {

// MPI's calls return error codes (MPI_ERRORS_RETURN); here they become sentences.
static void mpi_check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommError(std::string(call) + " failed: " + std::string(text, static_cast<size_t>(length)) +
                  "; a peer or the network was lost");
}

namespace {

// Polls until all requests are done. The first 2,000 polls follow each other without a pause, since small messages
// inside a host take microseconds; after that the core is left to this rank's other threads.
void wait_for_all(std::vector<MPI_Request>& requests, double limit_s) {
  const Stopwatch waited;
  for (int64_t looks = 0;; ++looks) {
    int done = 0;
    mpi_check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
              "MPI_Testall");
    if (done != 0) return;
    if (looks < 2000) continue;
    if (waited.seconds() > limit_s) throw CommError("messages did not come or go for " + fixed(limit_s, 1) + " s");
    const timespec pause{0, looks < 20000 ? 20'000 : 200'000};
    nanosleep(&pause, nullptr);
  }
}

// What the session shares with the communicators that it made.
struct Shared {
  IntraHost intra_host = IntraHost::automatic;
  MPI_Comm host = MPI_COMM_NULL;  // the ranks of this host
  std::vector<MPI_Win> windows;   // in the order they were made; freed by finalize()
};

constexpr int64_t kWordBytes = 4096;  // before each segment: the rank's barrier word, on its own page

// Open MPI begins a rank's part of a window some bytes after a page's start, the same number in every process, and
// promises no alignment; one page more leaves room for this.
void* page_within(void* base) {
  auto* bytes = static_cast<char*>(base);
  const auto beyond = static_cast<int64_t>(reinterpret_cast<uintptr_t>(bytes) % kWordBytes);
  return beyond == 0 ? bytes : bytes + (kWordBytes - beyond);
}

// Whether /dev/shm, where MPI puts shared windows, has room for `bytes`. Containers often have only 64 MB there, and if
// that is too little MPI fails on one rank and hangs on the others. A tenth is left for MPI itself.
bool shared_memory_has_room(int64_t bytes) {
  struct statvfs room {};
  if (statvfs("/dev/shm", &room) != 0) return false;
  return static_cast<double>(room.f_bavail) * static_cast<double>(room.f_frsize) >
         1.1 * static_cast<double>(bytes) + 8e6;
}

// MPI is given only host memory: a transport of MPI that uses GPUs, and NCCL, could each wait for the other.
at::Tensor host_copy(const at::Tensor& tensor) { return tensor.is_cpu() ? tensor : pinned_like(tensor).copy_(tensor); }

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(MPI_Comm comm, std::shared_ptr<Shared> shared) : comm_(comm), shared_(std::move(shared)) {
    mpi_check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    mpi_check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  }
  // The duplicate is not freed here: MPI_Comm_free is collective, and a rank that unwinds after an error must not wait
  // for its peers. MPI_Finalize frees it.

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives) override {
    std::vector<at::Tensor> host_copies;
    std::vector<at::Tensor> received;
    requests_.clear();
    for (const Message& message : receives) {
      received.push_back(message.data.is_cpu() ? message.data : pinned_like(message.data));
      post(message.peer, received.back(), false);
    }
    for (const Message& message : sends) {
      host_copies.push_back(host_copy(message.data));
      post(message.peer, host_copies.back(), true);
    }
    if (!requests_.empty()) wait_for_all(requests_, limit_s_);
    for (size_t i = 0; i < receives.size(); ++i)
      if (!receives[i].data.is_cpu()) at::Tensor(receives[i].data).copy_(received[i]);
  }

  std::unique_ptr<Communicator> duplicate() override {
    MPI_Comm copy = MPI_COMM_NULL;
    mpi_check(MPI_Comm_dup(comm_, &copy), "MPI_Comm_dup");
    mpi_check(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    return std::make_unique<MpiCommunicator>(copy, shared_);
  }

  void all_reduce(at::Tensor& tensor) override {
    check(tensor.is_contiguous() && tensor.scalar_type() == at::kFloat, "MPI adds up floats");
    at::Tensor host = host_copy(tensor);
    constexpr int64_t kPiece = int64_t{1} << 28;  // MPI counts in int
    for (int64_t at = 0; at < tensor.numel(); at += kPiece)
      mpi_check(MPI_Allreduce(MPI_IN_PLACE, host.mutable_data_ptr<float>() + at,
                              static_cast<int>(std::min(kPiece, tensor.numel() - at)), MPI_FLOAT, MPI_SUM, comm_),
                "MPI_Allreduce");
    if (!tensor.is_cpu()) tensor.copy_(host);
  }

  void limit_waits(double seconds) override { limit_s_ = seconds; }

  HostMemory share(int64_t numel, c10::Device device) override {
    if (!device.is_cpu()) {
      HostMemory memory = unshared_memory(rank_, size_, numel, device);
      memory.note = "GPU memory through the host's";
      return memory;
    }
    int locals = 1;
    mpi_check(MPI_Comm_size(shared_->host, &locals), "MPI_Comm_size");
    const int64_t bytes = 2 * kWordBytes + (numel * 4 + kWordBytes - 1) / kWordBytes * kWordBytes;
    const bool network = shared_->intra_host == IntraHost::network;
    int usable = !network && (locals == 1 || shared_memory_has_room(bytes * locals));
    mpi_check(MPI_Allreduce(MPI_IN_PLACE, &usable, 1, MPI_INT, MPI_MIN, comm_), "MPI_Allreduce");
    HostMemory memory = name_hosts();
    if (usable == 0 || size_ == 1) {
      const bool alone = memory.hosts.size() == static_cast<size_t>(size_);
      memory = unshared_memory(rank_, size_, numel, device);
      if (!alone)
        memory.note =
            network ? "distributed.intra_host is network" : "/dev/shm on a host is missing or has too little room";
      return memory;
    }
    map_window(memory, bytes, numel);
    return memory;
  }

 private:
  // A host is identified by its lowest rank.
  HostMemory name_hosts() {
    int first = rank_;
    mpi_check(MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, shared_->host), "MPI_Allreduce");
    std::vector<int> firsts(static_cast<size_t>(size_));
    mpi_check(MPI_Allgather(&first, 1, MPI_INT, firsts.data(), 1, MPI_INT, comm_), "MPI_Allgather");
    HostMemory memory;
    std::map<int, size_t> places;
    for (int r = 0; r < size_; ++r) {
      const auto [place, is_new] = places.try_emplace(firsts[static_cast<size_t>(r)], memory.hosts.size());
      if (is_new) memory.hosts.emplace_back();
      if (r == rank_) memory.local = memory.hosts[place->second].size();
      memory.hosts[place->second].push_back(r);
    }
    memory.host = places.at(first);
    return memory;
  }

  void map_window(HostMemory& memory, int64_t bytes, int64_t numel) {
    MPI_Info info = MPI_INFO_NULL;
    mpi_check(MPI_Info_create(&info), "MPI_Info_create");
    MPI_Info_set(info, "alloc_shared_noncontig", "true");  // each segment on its own pages
    void* own = nullptr;
    MPI_Win window = MPI_WIN_NULL;
    mpi_check(MPI_Win_allocate_shared(bytes, 1, info, shared_->host, &own, &window), "MPI_Win_allocate_shared");
    MPI_Info_free(&info);
    shared_->windows.push_back(window);
    std::memset(own, 0, static_cast<size_t>(bytes));  // touches the pages, so that they are near this rank's cores
    new (page_within(own)) BarrierWord();
    mpi_check(MPI_Barrier(shared_->host), "MPI_Barrier");
    std::vector<BarrierWord*> words;
    for (size_t i = 0; i < memory.ranks().size(); ++i) {
      MPI_Aint size = 0;
      int unit = 0;
      void* base = nullptr;  // rank i of the window is ranks[i]: both are ascending
      mpi_check(MPI_Win_shared_query(window, static_cast<int>(i), &size, &unit, &base), "MPI_Win_shared_query");
      base = page_within(base);
      words.push_back(static_cast<BarrierWord*>(base));
      memory.segments.push_back(at::from_blob(static_cast<char*>(base) + kWordBytes, {numel}, at::kFloat));
    }
    memory.barrier = HostBarrier(words, memory.local);
  }

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
  std::shared_ptr<Shared> shared_;
  int rank_ = 0;
  int size_ = 1;
  double limit_s_ = std::numeric_limits<double>::infinity();
  std::vector<MPI_Request> requests_;
};

}  // namespace

struct MpiSession::Impl {
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  MPI_Comm failures = MPI_COMM_NULL;  // a channel for ranks that have failed
  MPI_Comm link = MPI_COMM_NULL;      // for peer_link()
  int local_rank = 0;
};

static std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Open MPI reads its parameters from the environment when it starts. A choice of transports that lets messages bypass
// the network is refused, since the report would wrongly name the network.
static void ask_for_network() {
  const std::string btl = environment("OMPI_MCA_btl");
  const std::string pml = environment("OMPI_MCA_pml");
  const bool other_btl =
      !btl.empty() && (btl[0] == '^' || btl.find("tcp") == std::string::npos ||
                       btl.find("vader") != std::string::npos || btl.find("sm") != std::string::npos);
  if (other_btl || (!pml.empty() && pml != "ob1"))
    throw ConfigError("distributed.intra_host network needs Open MPI to use only TCP, but " +
                      (other_btl ? "OMPI_MCA_btl is " + btl : "OMPI_MCA_pml is " + pml) + "; unset it");
  setenv("OMPI_MCA_pml", "ob1", 0);
  setenv("OMPI_MCA_btl", "tcp,self", 0);
  if (only_loopback(network_addresses()) && environment("OMPI_MCA_btl_tcp_if_exclude").empty())
    setenv("OMPI_MCA_btl_tcp_if_include", "lo", 0);  // by default Open MPI leaves it out
}

MpiSession::MpiSession(IntraHost intra_host) : impl_(std::make_unique<Impl>()) {
  if (intra_host == IntraHost::network) ask_for_network();
  int provided = 0;
  mpi_check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (provided < MPI_THREAD_MULTIPLE)
    throw CommError("this MPI offers no MPI_THREAD_MULTIPLE, which dtrain needs; use an MPI built with threads");
  impl_->shared->intra_host = intra_host;
  mpi_check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &impl_->shared->host),
            "MPI_Comm_split_type");
  mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &impl_->failures), "MPI_Comm_dup");
  MPI_Comm_rank(impl_->shared->host, &impl_->local_rank);
}

MpiSession::~MpiSession() = default;

std::unique_ptr<Communicator> MpiSession::world() { return MpiCommunicator(MPI_COMM_WORLD, impl_->shared).duplicate(); }
int MpiSession::local_rank() const { return impl_->local_rank; }

std::unique_ptr<PeerLink> MpiSession::peer_link() {
  mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &impl_->link), "MPI_Comm_dup");
  return std::make_unique<PeerLink>(&impl_->link);
}

bool MpiSession::started() {
  int started = 0;
  MPI_Initialized(&started);
  return started != 0;
}

std::string MpiSession::library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string whole(text, static_cast<size_t>(length));
  return whole.substr(0, whole.find_first_of(",\n"));
}

int MpiSession::lowest_failed_rank(double seconds) {
  int lowest = 0;
  int size = 1;
  MPI_Comm_rank(impl_->failures, &lowest);
  MPI_Comm_size(impl_->failures, &size);
  for (int rank = lowest + 1; rank < size; ++rank) {  // not waited for: the peer may be gone or busy
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(nullptr, 0, MPI_BYTE, rank, 0, impl_->failures, &request);
    MPI_Request_free(&request);
  }
  const Stopwatch watch;
  while (lowest > 0 && watch.seconds() < seconds) {
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, 0, impl_->failures, &there, &status);
    if (there != 0) {
      MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, 0, impl_->failures, MPI_STATUS_IGNORE);
      lowest = std::min(lowest, status.MPI_SOURCE);
    }
    const timespec pause{0, 5'000'000};
    nanosleep(&pause, nullptr);
  }
  return lowest;
}

void MpiSession::finalize() {
  for (MPI_Win& window : impl_->shared->windows) mpi_check(MPI_Win_free(&window), "MPI_Win_free");
  MPI_Comm_free(&impl_->shared->host);
  MPI_Comm_free(&impl_->failures);
  if (impl_->link != MPI_COMM_NULL) MPI_Comm_free(&impl_->link);
  mpi_check(MPI_Finalize(), "MPI_Finalize");
}

// Sets what `mpirun --quiet` sets in Open MPI 4's processes, but only in this one and only now: set before MPI starts,
// it would also suppress messages about that start. In an MPI without this variable nothing happens.
static void silence_open_mpi() {
  if (auto* quiet = static_cast<bool*>(dlsym(RTLD_DEFAULT, "orte_execute_quiet")); quiet != nullptr) *quiet = true;
}

void MpiSession::abort(int code) {
  silence_open_mpi();
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

}  // namespace dtrain
