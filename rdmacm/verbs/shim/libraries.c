//go:build verbs

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>

#include "libraries.h"
#include "shim.h"

struct libraries lib;
pthread_rwlock_t destruction = PTHREAD_RWLOCK_INITIALIZER;

static const char *missing;

static const char *load(void)
{
	void *verbs, *cm;

	/* After the removal of a device, drivers that disassociate (mlx5, mlx4) answer EIO to each destruction,
	 * although the kernel has freed the object. libibverbs takes that for success if this variable is set
	 * when it looks for devices: ibv_open_device(3). The lock `destruction` keeps the rule that this
	 * page states. */
	setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1", 0);
	if (!(verbs = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL)))
		return "libibverbs.so.1";
	if (!(cm = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL)))
		return "librdmacm.so.1";
	/* dlsym without a version finds the newest version of a symbol, which is the one in the headers. */
#define FIND(library, name)                                                                           \
	if (!(*(void **)&lib.name = dlsym(library, #name)))                                           \
		return #name;
#define FIND_VERBS(result, name, arguments) FIND(verbs, name)
#define FIND_CM(result, name, arguments) FIND(cm, name)
	VERBS_FUNCTIONS(FIND_VERBS)
	RDMACM_FUNCTIONS(FIND_CM)
	/* When a device is removed, the process may have no descriptor left. */
	if ((lib.nothing = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0)
		return "/dev/null";
	return 0;
}

static void load_once(void) { missing = load(); }

const char *vb_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_once);
	return missing;
}
