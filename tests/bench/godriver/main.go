// A DRA driver on upstream's own library, the peer of `make bench-node`: some devices, one CDI file for each claim, and
// a checkpoint with all claims that is flushed before the answer, as upstream's example driver and the kubelet have it.
//
// Arguments: kubeconfig, node name, plugins folder, registry folder, CDI folder, number of devices.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

const (
	driverName = "sim.claimsmith.dev"
	cdiKind    = "peer.claimsmith.dev/claim"
)

type driver struct {
	folder, cdi string
	// claims has what is prepared; the library calls for one claim after the other.
	claims map[types.UID][]kubeletplugin.Device
}

func (d *driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		devices, err := d.prepare(claim)
		results[claim.UID] = kubeletplugin.PrepareResult{Err: err, Devices: devices}
	}
	return results, nil
}

func (d *driver) prepare(claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	if known, ok := d.claims[claim.UID]; ok {
		return known, nil
	}
	var devices []kubeletplugin.Device
	var described []any
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != driverName {
			continue
		}
		name := string(claim.UID) + "-" + result.Device
		described = append(described, map[string]any{
			"name":           name,
			"containerEdits": map[string]any{"env": []string{"DEVICE=" + result.Device}},
		})
		devices = append(devices, kubeletplugin.Device{
			Requests: []string{result.Request}, PoolName: result.Pool, DeviceName: result.Device,
			CDIDeviceIDs: []string{cdiKind + "=" + name},
		})
	}
	spec := map[string]any{"cdiVersion": "0.6.0", "kind": cdiKind, "devices": described}
	if err := write(d.cdiPath(claim.UID), spec, false); err != nil {
		return nil, err
	}
	d.claims[claim.UID] = devices
	return devices, d.keep()
}

func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		delete(d.claims, claim.UID)
		err := os.Remove(d.cdiPath(claim.UID))
		if os.IsNotExist(err) {
			err = nil
		}
		if err == nil {
			err = d.keep()
		}
		results[claim.UID] = err
	}
	return results, nil
}

func (d *driver) HandleError(_ context.Context, err error, message string) {
	fmt.Fprintln(os.Stderr, message, err)
}

func (d *driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

func (d *driver) cdiPath(uid types.UID) string {
	return filepath.Join(d.cdi, "peer.claimsmith.dev-claim_"+string(uid)+".json")
}

func (d *driver) keep() error {
	return write(filepath.Join(d.folder, "checkpoint.json"), d.claims, true)
}

// write replaces a file in one step.
func write(path string, content any, flush bool) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)))
	if err != nil {
		return err
	}
	if _, err = file.Write(data); err == nil && flush {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

func run() error {
	kubeconfig, node, plugins, registry, cdi := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	count, err := strconv.Atoi(os.Args[6])
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	folder := filepath.Join(plugins, driverName)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	helper, err := kubeletplugin.Start(ctx, &driver{folder: folder, cdi: cdi, claims: map[types.UID][]kubeletplugin.Device{}},
		kubeletplugin.DriverName(driverName), kubeletplugin.NodeName(node), kubeletplugin.KubeClient(client),
		kubeletplugin.PluginDataDirectoryPath(folder), kubeletplugin.RegistrarDirectoryPath(registry))
	if err != nil {
		return err
	}
	defer helper.Stop()
	var devices []resourceapi.Device
	for number := range count {
		devices = append(devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", number)})
	}
	pool := resourceslice.Pool{Slices: []resourceslice.Slice{{Devices: devices}}}
	resources := resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{node: pool}}
	if err := helper.PublishResources(ctx, resources); err != nil {
		return err
	}
	return tellRegistered(ctx, helper)
}

// tellRegistered logs, in the words of claimsmith's agent, that the kubelet calls from now on, and waits for the end.
func tellRegistered(ctx context.Context, helper *kubeletplugin.Helper) error {
	for ctx.Err() == nil {
		if status := helper.RegistrationStatus(); status != nil && status.PluginRegistered {
			line := map[string]any{
				"message": "The kubelet has registered the plugin",
				"fields":  map[string]string{"plugin": driverName},
			}
			if err := json.NewEncoder(os.Stderr).Encode(line); err != nil {
				return err
			}
			<-ctx.Done()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
