// @ts-check
// Jobs to begin with. They need nothing but a shell.

const container = (/** @type {string} */ script) => ({ name: "main", image: "busybox:1.36", command: ["sh", "-c", script] });

/** @type {Record<string, object>} */
export const EXAMPLES = {
  TaskSet: {
    apiVersion: "octopus.openi.pcl.cn/v1alpha1",
    kind: "TaskSet",
    metadata: { name: "two-roles" },
    spec: {
      roles: [
        {
          name: "worker",
          replicas: 3,
          completionPolicy: { minSucceeded: 2, maxFailed: 2 },
          retryPolicy: { retry: true, delay: 1, maxRetryCount: 1 },
          template: { spec: { containers: [container('echo "worker $TASKROLE_REPLICA_INDEX"; sleep 0.2')] } },
        },
        { name: "report", replicas: 1, template: { spec: { containers: [container('echo "the workers are at $TASKROLE_HOSTS_WORKER"')] } } },
      ],
    },
  },
  TFJob: {
    apiVersion: "kubeflow.org/v1",
    kind: "TFJob",
    metadata: { name: "three-replicas" },
    spec: {
      runPolicy: { cleanPodPolicy: "Running", backoffLimit: 2 },
      tfReplicaSpecs: {
        Chief: { replicas: 1, restartPolicy: "OnFailure", template: { spec: { containers: [{ ...container('echo "chief: $TF_CONFIG"'), name: "tensorflow" }] } } },
        Worker: { replicas: 2, restartPolicy: "OnFailure", template: { spec: { containers: [{ ...container('echo "worker $TASKROLE_REPLICA_INDEX"'), name: "tensorflow" }] } } },
      },
    },
  },
};
