#include "base/settings.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <set>

#include "environment.h"

namespace floe {
namespace {

using test::Environment;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SettingsTest : public testing::Test {
 protected:
  SettingsTest() {
    for (const SettingInfo& row : setting_table()) environment_.unset(std::string(row.name));
  }
  Environment environment_;
};

TEST_F(SettingsTest, DefaultsOfTheTableAreValid) {
  const auto settings = Settings::from_environment();
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_EQ(settings->log, "warn");
  EXPECT_TRUE(settings->shm);
  EXPECT_EQ(settings->provider, "");
  EXPECT_EQ(settings->workers, 0u);
  EXPECT_THAT(settings->worker_affinity, IsEmpty());
  EXPECT_EQ(settings->timeout_ms, 300'000u);
  EXPECT_EQ(settings->store_port, 0u);
}

TEST_F(SettingsTest, EveryValueIsRead) {
  environment_.set("FLOE_LOG", "debug");
  environment_.set("FLOE_SHM", "off");
  environment_.set("FLOE_PROVIDER", "tcp");
  environment_.set("FLOE_IFNAME", "eth7");
  environment_.set("FLOE_RAILS", "8");
  environment_.set("FLOE_FABRIC_MR", "always");
  environment_.set("FLOE_ISA", "avx2");
  environment_.set("FLOE_WORKERS", "1");
  environment_.set("FLOE_WORKER_AFFINITY", "3,5-6");
  environment_.set("FLOE_TIMEOUT_MS", "1234");
  environment_.set("FLOE_STORE_PORT", "65535");
  environment_.set("FLOE_PORT_RANGE", "2000-2002");
  environment_.set("FLOE_SECRET", "of this test");
  const auto settings = Settings::from_environment();
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_EQ(settings->log, "debug");
  EXPECT_FALSE(settings->shm);
  EXPECT_EQ(settings->provider, "tcp");
  EXPECT_EQ(settings->interface, "eth7");
  EXPECT_EQ(settings->rails, 8u);
  EXPECT_TRUE(settings->always_registers);
  EXPECT_EQ(settings->isa, "avx2");
  EXPECT_EQ(settings->workers, 1u);
  EXPECT_THAT(settings->worker_affinity, ElementsAre(3, 5, 6));
  EXPECT_EQ(settings->timeout_ms, 1234u);
  EXPECT_EQ(settings->store_port, 65535u);
  EXPECT_EQ(settings->port_range.to_text(), "2000-2002");
  EXPECT_THAT(settings->port_range.ports(1), ElementsAre(2001, 2002, 2000));
  EXPECT_EQ(settings->secret, "of this test");
  for (const SettingValue& value : settings->values) EXPECT_NE(value.text, "of this test") << "it is shown";
}

class SecretFile : public SettingsTest {
 protected:
  void write(const std::string& text) {
    std::ofstream(path_) << text;
    environment_.set("FLOE_SECRET_FILE", path_);
  }
  ~SecretFile() override { std::remove(path_.c_str()); }
  const std::string path_ = testing::TempDir() + "floe-secret-" + std::to_string(::getpid());
};

TEST_F(SecretFile, IsReadWithoutItsNewline) {
  write("a b\n");
  const auto settings = Settings::from_environment();
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_EQ(settings->secret, "a b");
}

TEST_F(SecretFile, MustHoldSomethingAndNotTooMuch) {
  for (const std::string& text : {std::string("\n"), std::string(5000, 'x')}) {
    write(text);
    EXPECT_THAT(Settings::from_environment().status().message(), HasSubstr(path_));
  }
  environment_.set("FLOE_SECRET_FILE", path_ + ".absent");
  EXPECT_THAT(Settings::from_environment().status().message(),
              AllOf(HasSubstr("FLOE_SECRET_FILE"), HasSubstr("No such file")));
}

TEST_F(SecretFile, ExcludesTheVariable) {
  write("one");
  environment_.set("FLOE_SECRET", "two");
  EXPECT_EQ(Settings::from_environment().status().code(), FLOE_ERR_ENVIRONMENT);
}

TEST(PortRange, OfNothingIsAnyPort) { EXPECT_THAT(PortRange().ports(7), ElementsAre(0)); }

TEST_F(SettingsTest, AVariableSetToNothingIsNotSet) {
  environment_.set("FLOE_SHM", "");
  environment_.set("FLOE_TIMEOUT_MS", "");
  const auto settings = Settings::from_environment();
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_TRUE(settings->shm);
  EXPECT_EQ(settings->timeout_ms, 300'000u);
}

struct WrongValue {
  std::string name, value, allowed;
};

class WrongSetting : public SettingsTest, public testing::WithParamInterface<WrongValue> {};

TEST_P(WrongSetting, IsAnErrorThatNamesVariableValueAndWhatIsAllowed) {
  const WrongValue& wrong = GetParam();
  environment_.set(wrong.name, wrong.value);
  const auto settings = Settings::from_environment();
  ASSERT_FALSE(settings.ok());
  EXPECT_EQ(settings.status().code(), FLOE_ERR_ENVIRONMENT);
  EXPECT_THAT(settings.status().message(),
              AllOf(HasSubstr(wrong.name), HasSubstr("'" + wrong.value + "'"), HasSubstr(wrong.allowed)));
}

INSTANTIATE_TEST_SUITE_P(
    Settings, WrongSetting,
    testing::Values(
        WrongValue{"FLOE_LOG", "verbose", "debug"}, WrongValue{"FLOE_SHM", "yes", "on, off"},
        WrongValue{"FLOE_RAILS", "0", "1-8"}, WrongValue{"FLOE_RAILS", "9", "1-8"},
        WrongValue{"FLOE_FABRIC_MR", "never", "auto, always"}, WrongValue{"FLOE_WORKERS", "2", "0, 1"},
        WrongValue{"FLOE_WORKERS", "-1", "0, 1"}, WrongValue{"FLOE_WORKER_AFFINITY", "0,x", "CPU list"},
        WrongValue{"FLOE_TIMEOUT_MS", "0", "1 or more"}, WrongValue{"FLOE_TIMEOUT_MS", "5s", "1 or more"},
        WrongValue{"FLOE_TIMEOUT_MS", "-5", "1 or more"},
        WrongValue{"FLOE_TIMEOUT_MS", "99999999999999999999", "1 or more"},
        WrongValue{"FLOE_STORE_PORT", "0", "1-65535"}, WrongValue{"FLOE_STORE_PORT", "65536", "1-65535"},
        WrongValue{"FLOE_PORT_RANGE", "20000", "20000-20100"},
        WrongValue{"FLOE_PORT_RANGE", "9-8", "20000-20100"},
        WrongValue{"FLOE_PORT_RANGE", "0-9", "20000-20100"},
        WrongValue{"FLOE_PORT_RANGE", "1-65536", "20000-20100"}));

TEST(SettingTable, NamesAreUniqueAndEveryRowHasHelp) {
  std::set<std::string_view> names;
  for (const SettingInfo& row : setting_table()) {
    EXPECT_TRUE(row.name.starts_with("FLOE_")) << row.name;
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.values.empty() || row.help.empty()) << row.name;
  }
}

TEST_F(SettingsTest, AnUnknownVariableIsAWarning) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a fresh process: the warning comes once in each
  environment_.set("FLOE_TIMEOUT", "5");           // what somebody may write for FLOE_TIMEOUT_MS
  EXPECT_EXIT(std::exit(Settings::from_environment().ok() ? 0 : 1), testing::ExitedWithCode(0),
              "warning: FLOE_TIMEOUT is not a setting");
}

TEST(CpuList, ReadsSinglesAndRanges) {
  EXPECT_THAT(*parse_cpu_list(""), IsEmpty());
  EXPECT_THAT(*parse_cpu_list("7"), ElementsAre(7));
  EXPECT_THAT(*parse_cpu_list("0,2-4"), ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(*parse_cpu_list("5-5,1"), ElementsAre(5, 1));
}

TEST(CpuList, IsWrittenAsItIsRead) {
  for (const char* text : {"", "7", "0-1", "0,2-4,9,65535"})
    EXPECT_EQ(format_cpu_list(*parse_cpu_list(text)), text);
}

TEST(CpuList, RefusesEverythingElse) {
  for (const char* text : {",", "1,", ",1", "1,,2", "a", "1 ", "-1", "1-", "3-2", "1-2-3", "0x1", "1.5",
                           "65536", "0-4294967296", "0-65535,0", "99999999999999999999"}) {
    const auto cpus = parse_cpu_list(text);
    EXPECT_FALSE(cpus.ok()) << "'" << text << "'";
  }
}

}  // namespace
}  // namespace floe
