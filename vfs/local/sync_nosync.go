//go:build nosync

package local

func sysFsync(int) error  { return nil }
func sysSyncfs(int) error { return nil }
