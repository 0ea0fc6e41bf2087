#include "train/save_beside.hpp"

#include "dtrain/base/error.hpp"
#include "dtrain/checkpoint/checkpoint_folder.hpp"
#include "dtrain/io/files/file.hpp"

namespace dtrain {

// Copies files of the old folder that are still valid, if they can still be read.
static void copy_what_is_left(const LostFolder& lost, const RunFolder& rescued) {
  for (const std::string name : {"best.safetensors", "log.txt"}) {
    try {
      const std::vector<std::byte> bytes = read_file(lost.folder.file(name), int64_t{1} << 40, lost.lock.files());
      AtomicFile file(rescued.file(name));
      file.write(bytes);
      file.commit();
    } catch (const Error&) {  // removed with the folder
    }
  }
}

static std::string rescue(const LostFolder& lost, const TrainingState& state, const std::vector<FileTensor>& tensors,
                          const std::string& config, const RunFacts& facts) {
  const RunFolder rescued(lost.folder.free_name("rescued"));
  rescued.make();
  const RunLock lock(rescued.path(), RunLock::this_process());
  CheckpointFolder(rescued.checkpoints()).save(state, HostCopy(tensors), 1);
  write_file_atomically(rescued.file("config.yaml"), config);
  write_run_json(rescued.file("run.json"), facts);
  lost.log.copy_to(rescued.path());
  copy_what_is_left(lost, rescued);
  return rescued.path();
}

void save_beside(const LostFolder& lost, const TrainingState& state, const std::vector<FileTensor>& tensors,
                 const std::string& config, const RunFacts& facts) {
  const std::string happened = lost.lock.stands() ? "has lost epochs.csv or metrics.jsonl, or others took their places"
                                                  : lost.lock.what_happened();
  const std::string head = "the run folder " + lost.folder.path() + " " + happened + " while it was in use; step " +
                           std::to_string(state.step) + " ";
  std::string place;
  try {
    place = rescue(lost, state, tensors, config, facts);
  } catch (const std::exception& error) {  // memory may have ended too
    throw IoError(head + "could not be saved beside it: " + error.what());
  }
  throw IoError(head + "is saved in " + place + "; resume from there with --run-dir " + place);
}

}  // namespace dtrain
