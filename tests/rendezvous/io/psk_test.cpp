// Keys: what follows from the secret and what does not.
#include "rendezvous/io/psk.h"

#include <gtest/gtest.h>

#include <set>

namespace dlaunch::rendezvous {
namespace {

TEST(Psk, EverySecretIsAnother) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) seen.insert(to_hex(make_secret()));
  EXPECT_EQ(seen.size(), 100U);
}

TEST(Psk, HexGoesThereAndBackAndRefusesAnythingElse) {
  const auto secret = make_secret();
  EXPECT_EQ(secret_from_hex(to_hex(secret)), secret);
  EXPECT_FALSE(secret_from_hex(""));
  EXPECT_FALSE(secret_from_hex(std::string(63, '0')));
  EXPECT_FALSE(secret_from_hex(std::string(66, '0')));
  EXPECT_FALSE(secret_from_hex("x" + std::string(63, '0')));
  EXPECT_FALSE(secret_from_hex("+" + std::string(63, '0')));
  EXPECT_FALSE(secret_from_hex("0 " + std::string(62, '0')));
}

TEST(Psk, HkdfGivesWhatTheStandardSays) {
  // RFC 5869 has no case with a 32-byte output and no salt; computed with an own HMAC in Python.
  Secret secret{};
  for (std::size_t i = 0; i < secret.size(); ++i) secret[i] = static_cast<unsigned char>(i);
  EXPECT_EQ(to_hex(host_key(secret, HostId{3})),
            "e0b09ffd3334e8beaca4e62489941ddb860d6b882d3f257e0a0afd43abc02e28");
}

TEST(Psk, KeysOfHostsAndGenerationsDiffer) {
  const auto secret = make_secret();
  std::set<std::string> keys{to_hex(secret)};
  for (std::uint32_t i = 0; i < 50; ++i) {
    keys.insert(to_hex(host_key(secret, HostId{i})));
    keys.insert(to_hex(mesh_token(secret, Generation{i})));
  }
  EXPECT_EQ(keys.size(), 101U);
  EXPECT_EQ(mesh_token(secret, Generation{7}), mesh_token(secret, Generation{7}));
}

}  // namespace
}  // namespace dlaunch::rendezvous
