#include "boot/launch.h"

#include <gmock/gmock.h>

#include <map>

#include "environment.h"

namespace floe {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

constexpr const char* kAll[] = {"RANK",
                                "WORLD_SIZE",
                                "LOCAL_RANK",
                                "LOCAL_WORLD_SIZE",
                                "MASTER_ADDR",
                                "MASTER_PORT",
                                "TORCHELASTIC_USE_AGENT_STORE",
                                "PMI_RANK",
                                "PMI_SIZE",
                                "MPI_LOCALRANKID",
                                "MPI_LOCALNRANKS",
                                "OMPI_COMM_WORLD_RANK",
                                "OMPI_COMM_WORLD_SIZE",
                                "OMPI_COMM_WORLD_LOCAL_SIZE",
                                "SLURM_PROCID",
                                "SLURM_NTASKS",
                                "SLURM_STEP_NUM_NODES",
                                "SLURM_NNODES",
                                "SLURM_JOB_NUM_NODES"};

Result<Launch> launch_in(const Variables& variables, uint16_t store_port = 0) {
  test::Environment environment;
  for (const char* name : kAll) environment.unset(name);
  for (const auto& [name, value] : variables) environment.set(name, value);
  Settings settings;
  settings.store_port = store_port;
  return discover_launch(settings);
}

struct Good {
  std::string name;
  Variables variables;
  Launch expected;
};
void PrintTo(const Good& good, std::ostream* out) { *out << good.name; }

class DiscoverLaunch : public testing::TestWithParam<Good> {};

TEST_P(DiscoverLaunch, ReadsWhatTheLauncherSet) {
  const auto launch = launch_in(GetParam().variables);
  ASSERT_TRUE(launch.ok()) << launch.status().message();
  const Launch& expected = GetParam().expected;
  EXPECT_EQ(launch->rank, expected.rank);
  EXPECT_EQ(launch->size, expected.size);
  EXPECT_EQ(launch->address, expected.address);
  EXPECT_EQ(launch->port, expected.port);
  EXPECT_EQ(launch->launcher, expected.launcher);
}

const Good kGood[] = {
    {"torchrun",
     {{"RANK", "3"},
      {"WORLD_SIZE", "8"},
      {"LOCAL_WORLD_SIZE", "4"},
      {"MASTER_ADDR", "node-a"},
      {"MASTER_PORT", "4000"},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"}},
     {3, 8, "node-a", 4001, "torchrun"}},
    {"torchrun_static_rendezvous",
     {{"RANK", "0"},
      {"WORLD_SIZE", "2"},
      {"MASTER_ADDR", "10.0.0.1"},
      {"MASTER_PORT", "4000"},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"}},
     {0, 2, "10.0.0.1", 4000, "torchrun"}},
    {"torchrun_one_node_without_address",
     {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}},
     {1, 2, "127.0.0.1", 29500, "torchrun"}},
    {"one_rank_is_always_local",
     {{"RANK", "0"}, {"WORLD_SIZE", "1"}},
     {0, 1, "127.0.0.1", 29500, "torchrun"}},
    {"hydra_one_node",
     {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"MPI_LOCALNRANKS", "4"}},
     {2, 4, "127.0.0.1", 29500, "Intel MPI or MPICH"}},
    {"hydra_two_nodes",
     {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALNRANKS", "2"}, {"MASTER_ADDR", "node-a"}},
     {3, 4, "node-a", 29500, "Intel MPI or MPICH"}},
    {"open_mpi",
     {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
     {0, 2, "127.0.0.1", 29500, "Open MPI"}},
    {"slurm_one_node",
     {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_NNODES", "1"}},
     {1, 2, "127.0.0.1", 29500, "Slurm"}},
    {"slurm_job_num_nodes",
     {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_NUM_NODES", "1"}},
     {1, 2, "127.0.0.1", 29500, "Slurm"}},
    {"slurm_step_on_one_node_of_many",
     {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_NNODES", "4"}},
     {1, 2, "127.0.0.1", 29500, "Slurm"}},
    {"rank_wins_over_mpi_and_slurm",
     {{"RANK", "5"},
      {"WORLD_SIZE", "6"},
      {"MASTER_ADDR", "a"},
      {"PMI_RANK", "0"},
      {"PMI_SIZE", "2"},
      {"SLURM_PROCID", "0"},
      {"SLURM_NTASKS", "1"}},
     {5, 6, "a", 29500, "torchrun"}},
    {"mpirun_inside_a_slurm_job",
     {{"OMPI_COMM_WORLD_RANK", "1"},
      {"OMPI_COMM_WORLD_SIZE", "2"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
      {"SLURM_PROCID", "0"},
      {"SLURM_NTASKS", "1"},
      {"SLURM_NNODES", "2"},
      {"MASTER_ADDR", "a"}},
     {1, 2, "a", 29500, "Open MPI"}},
    {"an_empty_address_is_none",
     {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", ""}},
     {0, 1, "127.0.0.1", 29500, "torchrun"}},
    {"the_largest_size",
     {{"RANK", "4294967294"}, {"WORLD_SIZE", "4294967295"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "65535"}},
     {4294967294u, 4294967295u, "a", 65535, "torchrun"}},
};
INSTANTIATE_TEST_SUITE_P(Launchers, DiscoverLaunch, testing::ValuesIn(kGood),
                         [](const auto& info) { return info.param.name; });

TEST(DiscoverLaunchPort, TheSettingWinsAndIsTakenAsItIs) {
  const auto launch = launch_in({{"RANK", "0"},
                                 {"WORLD_SIZE", "2"},
                                 {"MASTER_ADDR", "a"},
                                 {"MASTER_PORT", "4000"},
                                 {"TORCHELASTIC_USE_AGENT_STORE", "True"}},
                                5000);
  ASSERT_TRUE(launch.ok());
  EXPECT_EQ(launch->port, 5000);
}

TEST(DiscoverLaunchNone, WithoutALauncherListsAllThatWasLookedFor) {
  const auto launch = launch_in({});
  ASSERT_EQ(launch.status().code(), FLOE_ERR_ENVIRONMENT);
  EXPECT_THAT(launch.status().message(),
              AllOf(HasSubstr("RANK and WORLD_SIZE"), HasSubstr("PMI_RANK and PMI_SIZE"),
                    HasSubstr("OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE"),
                    HasSubstr("SLURM_PROCID and SLURM_NTASKS"), HasSubstr("MASTER_ADDR")));
}

struct Bad {
  std::string name;
  Variables variables;
  std::string says, says_too;  // the variable and its value
};
void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

class DiscoverLaunchError : public testing::TestWithParam<Bad> {};

TEST_P(DiscoverLaunchError, NamesVariableAndValue) {
  const auto launch = launch_in(GetParam().variables);
  ASSERT_FALSE(launch.ok());
  EXPECT_EQ(launch.status().code(), FLOE_ERR_ENVIRONMENT);
  EXPECT_THAT(launch.status().message(), AllOf(HasSubstr(GetParam().says), HasSubstr(GetParam().says_too)));
}

const Bad kBad[] = {
    {"rank_alone", {{"RANK", "1"}}, "RANK='1'", "WORLD_SIZE is not"},
    {"size_alone", {{"WORLD_SIZE", "4"}}, "WORLD_SIZE='4'", "RANK is not"},
    // Slurm alone would make this a job of one rank that silently trains by itself.
    {"rank_alone_under_slurm",
     {{"RANK", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}},
     "RANK='1'",
     "WORLD_SIZE is not"},
    {"slurm_shell_without_srun", {{"SLURM_NTASKS", "4"}}, "SLURM_NTASKS='4'", "SLURM_PROCID is not"},
    {"rank_is_a_word", {{"RANK", "one"}, {"WORLD_SIZE", "2"}}, "RANK='one'", "whole number"},
    {"rank_is_empty", {{"RANK", ""}, {"WORLD_SIZE", "2"}}, "RANK=''", "whole number"},
    {"rank_is_negative", {{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, "RANK='-1'", "from 0 to 1"},
    {"rank_is_padded", {{"RANK", "1 "}, {"WORLD_SIZE", "2"}}, "RANK='1 '", "whole number"},
    {"rank_is_size", {{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}, "PMI_RANK='2'", "PMI_SIZE='2'"},
    {"size_is_zero", {{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "WORLD_SIZE='0'", "from 1"},
    {"size_is_negative", {{"RANK", "0"}, {"WORLD_SIZE", "-2"}}, "WORLD_SIZE='-2'", "from 1"},
    {"size_is_too_large", {{"RANK", "0"}, {"WORLD_SIZE", "4294967296"}}, "WORLD_SIZE='4294967296'", "from 1"},
    {"size_overflows",
     {{"RANK", "0"}, {"WORLD_SIZE", "99999999999999999999999"}},
     "WORLD_SIZE='99999999999999999999999'",
     "from 1"},
    {"port_is_zero",
     {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_PORT", "0"}},
     "MASTER_PORT='0'",
     "from 1 to 65535"},
    {"port_is_too_large",
     {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_PORT", "65536"}},
     "MASTER_PORT='65536'",
     "from 1 to 65535"},
    {"no_port_after_the_last",
     {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_PORT", "65535"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}},
     "MASTER_PORT='65535'",
     "FLOE_STORE_PORT"},
    {"several_hosts_without_address",
     {{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}, {"MPI_LOCALNRANKS", "2"}},
     "MASTER_ADDR is not set",
     "Intel MPI or MPICH"},
    {"locality_unknown", {{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}}, "MASTER_ADDR is not set", "4 ranks"},
    {"slurm_on_two_nodes",
     {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_NNODES", "2"}, {"SLURM_JOB_NUM_NODES", "1"}},
     "MASTER_ADDR is not set",
     "Slurm"},
};
INSTANTIATE_TEST_SUITE_P(Launchers, DiscoverLaunchError, testing::ValuesIn(kBad),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace floe
