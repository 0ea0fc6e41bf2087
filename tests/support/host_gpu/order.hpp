#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dtrain::test {

/// Bytes that a piece of work reads or, if `writes`, may write. Work that does both says `writes`.
struct Access {
  const void* data = nullptr;
  size_t bytes = 0;
  bool writes = false;
};

/// Which work on the host's GPU is ordered, and by what: as torch.cuda._sanitizer does it for CUDA. Each stream counts
/// its work; a clock says how much of each stream's work comes before something. Events carry a clock from one stream
/// to another, waits carry it to the host, and what the host issues comes after all that it has waited for.
///
/// So an access that nothing orders after an earlier one to the same bytes is a fault each time, however the threads
/// happened to run; and so is memory that goes back to the stream it was allocated on while another, which it was not
/// lent to, may still use it. Only what is issued counts: faults are found when work is issued, on the thread that
/// issues it, and kept until they are asked for.
///
/// Memory is told apart by bytes, so that buckets of one tensor count separately. What lies between the elements of a
/// tensor with gaps counts as part of it. The host is one: what one of its threads has waited for, all have.
class WorkOrder {
 public:
  using Clock = std::vector<int64_t>;  ///< by stream: how many pieces of its work; absent: none

  static WorkOrder& all();

  /// `what` is issued to the stream.
  void issue(int64_t stream, const std::string& what, const std::vector<Access>& accesses);
  /// After all that was issued to the stream so far.
  Clock reached(int64_t stream);
  /// What is issued to the stream from now on comes after `until`.
  void hold(int64_t stream, const Clock& until);
  /// What anything is issued to from now on comes after `until`.
  void host_waited(const Clock& until);

  /// Memory of the device, in use from now on, for work of this stream. Work of others that comes before what the
  /// stream has been given so far would find the memory in its earlier use.
  void allocate(const void* data, size_t bytes, int64_t stream);
  /// The host lets go of it; `lent`: to these streams (record_stream).
  void release(const void* data, const std::vector<int64_t>& lent);

  /// How often each kind of work was issued to each stream.
  std::map<int64_t, std::map<std::string, int64_t>> counts();
  /// From now on a fault is told on stderr and ends the process by SIGABRT.
  void end_at_fault();
  /// Sentences, and none any more afterwards.
  std::vector<std::string> take_faults();

 private:
  struct Impl;
  WorkOrder();
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::test
