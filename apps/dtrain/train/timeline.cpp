#include "train/timeline.hpp"

#include "dtrain/base/error.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/dist/launch.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/own_output.hpp"

namespace dtrain {

Timeline::Timeline(const std::string& path, Job& job) : path_(path), job_(job), trace_(!path.empty()) {}

void Timeline::require_own() const {
  if (!path_.empty()) require_own_output(path_, "timeline", {kTraceMark});
}

void Timeline::begin() {
  if (path_.empty()) return;
  if (job_.is_root()) write_file_atomically(path_, trace_document({}));
  trace_.name_thread("train");
  barrier(job_.comm());
  trace_.begin();
}

void Timeline::gather() {
  if (path_.empty()) return;
  if (trace_.dropped() > 0)
    job_.log().warning("the timeline ends early: " + with_commas(trace_.dropped()) +
                       " later spans did not fit; a run with --limit-steps is shorter");
  ranks_ = gather_text(job_.comm(), trace_.events_json(job_.rank(), host_name()));
}

void Timeline::write() const {
  if (path_.empty()) return;
  try {
    write_file_atomically(path_, trace_document(ranks_));
    job_.log().info("timeline: " + path_ + "; open it in ui.perfetto.dev or chrome://tracing");
  } catch (const Error& error) {
    job_.log().warning(std::string("no timeline: ") + error.what());
  }
}

}  // namespace dtrain
