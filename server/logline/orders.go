package logline

// Lines about the administrator's socket and the orders that come by it.
var (
	NoAdminSocket = warn("cannot make the administrator's socket: nfsrdmad status, clients and the other commands do not work",
		"the daemon serves, but does not answer the [commands](#who-is-connected-what-is-open-what-waits). Remove what is in the way at `admin_socket`, end the other program that listens there, or name another path, and restart")
	ClientEvicted = warn("a client was removed by order of the administrator",
		"nothing: it is the effect of `nfsrdmad evict`")
	OpensReleased = warn("open files and locks were taken from clients by order of the administrator",
		"nothing: it is the effect of `nfsrdmad release`")
	ExportStopped = warn("an export was stopped by order of the administrator",
		"nothing: it is the effect of `nfsrdmad exports stop`. `nfsrdmad exports start` serves the export again")
	ExportStarted = warn("an export that was stopped is served again by order of the administrator",
		"nothing: it is the effect of `nfsrdmad exports start`")
	StillStopped = warn("an export stays stopped, as the administrator ordered before the restart",
		"nothing, if it is to stay so. `remedy` has the command that serves it again: [Unmount a file system that is exported](#unmount-a-file-system-that-is-exported)")
	StopsUnrecorded = fault("cannot record which exports the administrator has stopped",
		"see that the state directory can be written and has room. The orders hold as long as the daemon runs; if it starts again before this works, it may serve an export that was stopped, or not serve one that was started. `stopped` lists those that are stopped now. The daemon tries again every minute")
	StopsRecorded = info("which exports the administrator has stopped is recorded again",
		"nothing")
	GraceEndedByOrder = warn("the administrator has ended the grace period",
		"nothing: it is the effect of `nfsrdmad grace end`")
)
