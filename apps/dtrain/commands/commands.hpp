#pragma once
#include <string>

#include "dtrain/base/log.hpp"
#include "job/job.hpp"
#include "line/command_line.hpp"

namespace dtrain {

// One function per command, one file each. Each returns the exit code and throws Error.
int run_train(const TrainCommand& command, const Config& config, Job& job);
int run_check(const CheckCommand& command, const Config& config, const Log& log);
int run_pack(const PackCommand& command, const Config& config, Job& job);
int run_eval(const EvalCommand& command, const Config& config, Job& job);
int run_predict(const PredictCommand& command, const Config& config, Job& job);
int run_export(const ExportCommand& command, const Config& config, const Log& log);
int run_sweep(const SweepCommand& command, const Log& log);
int run_sample(const SampleCommand& command);
int run_init(const InitCommand& command, const Log& log);
int run_info(const InfoCommand& command);
int run_compare(const CompareCommand& command, const Log& log);
int run_report(const ReportCommand& command, const Log& log);
int run_verify(const VerifyCommand& command);
int run_bench_step(const BenchStepCommand& command, const Config& config, Job& job);
int run_bench_input(const BenchInputCommand& command, const Config& config, Job& job);
int run_bench_comm(const BenchCommCommand& command, const Config& config, Job& job);

/// The part of run_verify() for packed data: a folder that dtrain pack wrote, or one shard.
bool is_packed(const std::string& path);
int verify_packed(const VerifyCommand& command);

}  // namespace dtrain
