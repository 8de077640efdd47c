package krb5

import (
	"os"
	"syscall"
	"time"
)

// changeTime returns the ctime of a file, because chmod and rename change it as well.
func changeTime(_ os.FileInfo, st *syscall.Stat_t) time.Time { return time.Unix(st.Ctim.Unix()) }
