package server

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/internal/durable"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/server/statedir"
)

// lostFiles has the files of the state directory whose loss clients notice, and how.
var lostFiles = []struct{ name, effect string }{
	{statedir.Key, "a new key is made, and every client has to unmount and mount again"},
	{statedir.Records, "clients that had files open or locked lose them, and their programs get errors"},
	{statedir.Roots, "whatever directories the paths of exports lead to are accepted"},
	{statedir.Stopped, "exports that the administrator had stopped are served again, from whatever is at their paths"},
}

// warnOfLoss logs which files are missing of those that the state directory has had. It is called before
// anything is made in the directory. The versions before this one made no list: where another file is
// there, there was a key.
func (s *stateDir) warnOfLoss(log *zap.Logger) {
	had := s.listed()
	if len(had) == 0 && slices.ContainsFunc(lostFiles, func(f struct{ name, effect string }) bool { return s.has(f.name) }) {
		had = []string{statedir.Key}
	}
	for _, f := range lostFiles {
		if slices.Contains(had, f.name) && !s.has(f.name) {
			log.Warn(logline.LostStateFile, zap.String("file", filepath.Join(s.path, f.name)), zap.String("effect", f.effect),
				zap.String("remedy", "if the file was left out when the directory was moved or restored, stop the daemon, put the file back, and start again"))
		}
	}
}

// listState calls list, and logs its error.
func (s *Server) listState() {
	if err := s.state.list(); err != nil {
		s.log.Warn(logline.StateListUnwritten, zap.Error(err))
	}
}

// list stores which files the state directory has, and its format if claim could not.
func (s *stateDir) list() error {
	if err := statedir.Mark(s.path); err != nil {
		return err
	}
	var now []string
	for _, f := range lostFiles {
		if s.has(f.name) {
			now = append(now, f.name)
		}
	}
	if slices.Equal(now, s.listed()) {
		return nil
	}
	return durable.Write(filepath.Join(s.path, statedir.List), []byte(strings.Join(now, "\n")+"\n"))
}

// listed returns the names that list stored.
func (s *stateDir) listed() []string {
	b, _ := os.ReadFile(filepath.Join(s.path, statedir.List))
	return strings.Fields(string(b))
}

func (s *stateDir) has(name string) bool {
	_, err := os.Lstat(filepath.Join(s.path, name))
	return err == nil
}
