module claimsmith.dev/recorder

go 1.24

require go.yaml.in/yaml/v2 v2.4.4
