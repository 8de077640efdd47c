package records

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// patience is how long Open waits for another process to close the file.
const patience = 2 * time.Second

// What the database has: in clients a record for each, its key the minor version and the
// owner, its value the principal; in server how often it was started.
var (
	clients = []byte("clients")
	server  = []byte("server")
	starts  = []byte("starts")
)

// A Store is a state.Records in a file.
type Store struct{ db *bolt.DB }

// Open opens the file at path, and makes it where it is not there. Only its owner can read
// it.
func Open(path string) (*Store, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{
		Timeout: patience, FreelistType: bolt.FreelistMapType,
		// A page that has to be read when it is looked at stops the whole process as
		// long as the disk hangs.
		MmapFlags: unix.MAP_POPULATE,
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("open the records of NFSv4 clients in %s: another process has them open", path)
	case err != nil:
		return nil, fmt.Errorf("open the records of NFSv4 clients in %s: %w", path, err)
	}
	return &Store{db}, nil
}

// Close closes the file.
func (s *Store) Close() error { return s.db.Close() }

// Begin implements state.Records.
func (s *Store) Begin() (n uint32, known []state.Record, err error) {
	err = s.db.Update(func(tx *bolt.Tx) error {
		meta, err := tx.CreateBucketIfNotExists(server)
		if err != nil {
			return err
		}
		if n, err = count(meta); err != nil {
			return err
		}
		all, err := tx.CreateBucketIfNotExists(clients)
		if err != nil {
			return err
		}
		return all.ForEach(func(k, v []byte) error {
			if len(k) == 0 {
				return errors.New("a client has no name")
			}
			known = append(known, state.Record{Minor: uint32(k[0]), Owner: string(k[1:]), Principal: string(v)})
			return nil
		})
	})
	if err != nil {
		return 0, nil, fmt.Errorf("read the records of NFSv4 clients in %s: %w", s.db.Path(), err)
	}
	return n, known, nil
}

// mostStarts is how many starts there may be, so that the identities of clients do not
// come again.
const mostStarts = 1<<24 - 1

// count counts a start.
func count(meta *bolt.Bucket) (n uint32, err error) {
	switch v := meta.Get(starts); len(v) {
	case 0:
	case 4:
		n = binary.BigEndian.Uint32(v)
	default:
		return 0, errors.New("the number of starts is not one")
	}
	if n >= mostStarts {
		return 0, errors.New("the number of starts is at its end")
	}
	n++
	return n, meta.Put(starts, binary.BigEndian.AppendUint32(nil, n))
}

// Put implements state.Records.
func (s *Store) Put(more []state.Record) error {
	return s.update(func(all *bolt.Bucket) error {
		for _, r := range more {
			if err := all.Put(key(r), []byte(r.Principal)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Remove implements state.Records.
func (s *Store) Remove(gone []state.Record) error {
	return s.update(func(all *bolt.Bucket) error {
		for _, r := range gone {
			if err := all.Delete(key(r)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Store) update(f func(all *bolt.Bucket) error) error {
	err := s.db.Update(func(tx *bolt.Tx) error { return f(tx.Bucket(clients)) })
	if err != nil {
		return fmt.Errorf("write the records of NFSv4 clients in %s: %w", s.db.Path(), err)
	}
	return nil
}

func key(r state.Record) []byte { return append([]byte{byte(r.Minor)}, r.Owner...) }
