# Sourced by the scripts that build images: buildah without a daemon, and bases of Debian's packages. Needs lib.sh first.

# Bases and wheels, which are slow to fetch; may be deleted at any time.
image_cache=${XDG_CACHE_HOME:-$HOME/.cache}/pipeline-images

# Print why images cannot be built on this machine; nothing where they can. Installs what lacks, where it is allowed to.
why_no_images() {
    if [ "$(id -u)" != 0 ]; then
        echo "building images takes root, for chroot"
    elif ! command -v buildah >/dev/null || ! command -v mmdebstrap >/dev/null; then
        if ! command -v apt-get >/dev/null; then
            echo "buildah and mmdebstrap are not installed, and there is no apt-get to install them with"
        elif ! { apt-get -qq update && DEBIAN_FRONTEND=noninteractive \
            apt-get -qq install --no-install-recommends -y buildah mmdebstrap; } >/dev/null 2>&1; then
            echo "buildah and mmdebstrap could not be installed: apt-get install buildah mmdebstrap"
        fi
    fi
}

# Work in a storage that is this process's own: `storage` is set to its directory, which image_storage_end removes.
image_storage() {
    storage=$(mktemp -d)
    export BUILDAH_ISOLATION=chroot
}

in_storage() {
    buildah --root "$storage/root" --runroot "$storage/run" --storage-driver vfs "$@"
}

image_storage_end() {
    in_storage umount --all >/dev/null
    rm -rf "$storage"
}

# debian_base SUITE PACKAGE...: print the path of a tar file with a Debian of these packages, without documentation. It is made
# anew when it is a week old, for the security updates.
debian_base() {
    local suite=$1 file
    shift
    file=$image_cache/$suite-$(echo "$@" | cksum | cut -d ' ' -f 1).tar
    mkdir -p "$image_cache"
    (
        flock 9
        if [ -z "$(find "$file" -mtime -7 2>/dev/null)" ]; then
            echo "Making a base of Debian's packages: $suite, $*" >&2
            # Without `usrmerge`, which would bring Perl along.
            mmdebstrap --quiet --variant=minbase --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --include=usr-is-merged \
                --aptopt='APT::Install-Recommends "false"' \
                --include="$*" \
                --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
                --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
                "$suite" "$file.new.tar" >"$file.log" 2>&1 || { tail "$file.log" >&2; exit 1; }
            mv "$file.new.tar" "$file"
        fi
    ) 9>"$image_cache/.lock"
    echo "$file"
}

# image_of_base FILE NAME: make the tar file an image in the storage.
image_of_base() {
    local context
    context=$(mktemp -d)
    ln "$1" "$context/base.tar" 2>/dev/null || cp "$1" "$context/base.tar"
    printf 'FROM scratch\nADD base.tar /\nENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n' |
        in_storage build --quiet --timestamp 0 --tag "$2" --file - "$context" >/dev/null
    rm -rf "$context"
}
