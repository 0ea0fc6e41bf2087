#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::test {

/// Bytes between the processes of one communicator, through a file that all of them map: for each pair of ranks a
/// queue of 32 KiB, so that longer messages arrive in pieces.
class Wire {
 public:
  static constexpr int kMostRanks = 64;

  /// All ranks give the same path. The file is made by whoever comes first.
  Wire(std::string path, int ranks, int rank);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  void join();  ///< this rank is there
  bool all_joined() const;
  void leave();  ///< this rank sends and takes nothing more
  bool all_left() const;

  /// A message to or from `peer`. Both sides must give the same kind and size; if they do not, it never arrives.
  struct Part {
    int peer;
    uint32_t kind;
    char* data;
    size_t bytes;
    size_t done = 0;  ///< bytes, those of the tag included
    bool stuck = false;
    char tag[16] = {};
  };
  enum class End { done, stopped, peer_gone };
  /// Sends and takes all of them at the same time, those with one peer in the order given. `stop`: end early.
  /// `deaths_show`: end also when another rank's process is gone.
  End move(std::vector<Part> sends, std::vector<Part> takes, const std::atomic<bool>& stop, bool deaths_show);

 private:
  struct Ring;
  struct Head;
  Head& head() const;
  Ring& ring(int from, int to) const;
  bool send_some(Part& part) const;
  bool take_some(Part& part) const;
  bool advance(std::vector<Part>& parts, bool sending, bool& all_done) const;
  bool a_peer_is_gone() const;

  std::string path_;
  int ranks_;
  int rank_;
  size_t bytes_;
  void* memory_;
};

}  // namespace dtrain::test
