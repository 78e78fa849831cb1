// Which host this process is on, as far as shared memory is concerned.
#pragma once

#include <string>

namespace floe {

struct HostIdentity {
  // Equal for two processes exactly if abstract Unix sockets, process ids and descriptors can pass between
  // them: same boot of the same kernel, same network and pid namespaces, same user. A claim that the
  // descriptor exchange then proves.
  std::string id;
  std::string hostname;  // for messages
};

HostIdentity host_identity();

}  // namespace floe
